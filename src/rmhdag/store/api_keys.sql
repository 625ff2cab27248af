-- name: find_key
-- A session that was opened with a key ends with that key.
SELECT
    k.key_id, k.namespace, k.name, k.secret_hash, k.scopes, k.max_priority,
    k.revoked_at IS NOT NULL OR source.revoked_at IS NOT NULL AS revoked,
    COALESCE(LEAST(k.expires_at, source.expires_at) <= clock_timestamp(), false) AS expired,
    COALESCE(k.last_used_at < clock_timestamp() - interval '1 minute', true) AS is_long_unused
FROM dag_api_keys AS k
LEFT JOIN dag_api_keys AS source ON k.kind = 'session' AND source.key_id = k.rotated_from AND source.kind = 'key'
WHERE k.key_id = %(key_id)s AND k.kind = %(kind)s::key_kind

-- name: find_dead
SELECT k.key_id
FROM dag_api_keys AS k
LEFT JOIN dag_api_keys AS source ON k.kind = 'session' AND source.key_id = k.rotated_from AND source.kind = 'key'
WHERE k.key_id = ANY(%(key_ids)s::text[])
    AND (
        k.revoked_at IS NOT NULL OR k.expires_at <= clock_timestamp()
        OR source.revoked_at IS NOT NULL OR source.expires_at <= clock_timestamp()
    )

-- name: insert_key
INSERT INTO dag_api_keys (
    key_id, namespace, name, secret_hash, kind, scopes, max_priority, rotated_from, created_by, expires_at
)
VALUES (
    %(key_id)s, %(namespace)s, %(name)s, %(secret_hash)s, %(kind)s::key_kind, %(scopes)s, %(max_priority)s,
    %(rotated_from)s, %(created_by)s,
    CASE WHEN %(days)s::float8 IS NOT NULL THEN clock_timestamp() + %(days)s * interval '1 day' END
)

-- name: note_use
-- At most once a minute, so that reading does not become writing.
UPDATE dag_api_keys
SET last_used_at = clock_timestamp()
WHERE key_id = %(key_id)s AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')

-- name: list_keys
SELECT
    key_id, namespace, name, kind, scopes, max_priority, rotated_from, created_by, created_at, expires_at, revoked_at, revoked_by,
    last_used_at,
    CASE
        WHEN revoked_at IS NOT NULL THEN 'revoked'
        WHEN expires_at <= clock_timestamp() THEN 'expired'
        ELSE 'live'
    END AS state
FROM dag_api_keys
WHERE namespace = %(namespace)s AND kind <> 'login'
    AND (%(key_id)s::text IS NULL OR key_id = %(key_id)s)
    AND key_id > %(after)s
    AND (%(dead_too)s OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())))
ORDER BY key_id
LIMIT %(limit)s

-- name: lock_key
SELECT
    name, scopes, max_priority, revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()) AS live,
    (EXTRACT(epoch FROM expires_at - created_at) / 86400)::float8 AS days
FROM dag_api_keys
WHERE key_id = %(key_id)s AND namespace = %(namespace)s AND kind = 'key'
FOR UPDATE

-- name: live_twin
-- Rotation needs a key that is alone, so only its neighbours in the chain can be alive beside it.
SELECT t.key_id
FROM dag_api_keys AS k
JOIN dag_api_keys AS t ON t.rotated_from = k.key_id OR t.key_id = k.rotated_from
WHERE k.key_id = %(key_id)s AND t.kind = 'key'
    AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp())
LIMIT 1

-- name: end_after
-- LEAST passes over a NULL: a key without an end gets one.
UPDATE dag_api_keys
SET expires_at = LEAST(expires_at, clock_timestamp() + %(hours)s * interval '1 hour')
WHERE key_id = %(key_id)s

-- name: revoke_key_if_live
UPDATE dag_api_keys
SET revoked_at = clock_timestamp(), revoked_by = %(revoked_by)s
WHERE key_id = %(key_id)s AND namespace = %(namespace)s AND kind <> 'login' AND revoked_at IS NULL

-- name: use_login_if_fresh
-- One statement, so that of two who come with the same token one is late.
UPDATE dag_api_keys
SET revoked_at = clock_timestamp(), last_used_at = clock_timestamp()
WHERE key_id = %(key_id)s AND secret_hash = %(secret_hash)s AND kind = 'login'
    AND revoked_at IS NULL AND expires_at > clock_timestamp()
RETURNING namespace, name, scopes, created_by

-- name: end_session
UPDATE dag_api_keys
SET revoked_at = clock_timestamp(), revoked_by = %(revoked_by)s
WHERE key_id = %(key_id)s AND kind = 'session' AND revoked_at IS NULL

-- name: end_logins
UPDATE dag_api_keys
SET revoked_at = clock_timestamp(), revoked_by = %(created_by)s
WHERE namespace = %(namespace)s AND created_by = %(created_by)s AND kind <> 'key' AND revoked_at IS NULL

-- name: forget_logins
DELETE FROM dag_api_keys WHERE kind <> 'key' AND expires_at < clock_timestamp() - interval '1 day'
