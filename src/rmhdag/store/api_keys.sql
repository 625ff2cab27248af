-- name: find_key
SELECT
    key_id, namespace, name, secret_hash, scopes,
    revoked_at IS NOT NULL AS revoked,
    COALESCE(expires_at <= clock_timestamp(), false) AS expired,
    COALESCE(last_used_at < clock_timestamp() - interval '1 minute', true) AS is_long_unused
FROM dag_api_keys
WHERE key_id = %(key_id)s

-- name: insert_key
INSERT INTO dag_api_keys (key_id, namespace, name, secret_hash, scopes, rotated_from, created_by, expires_at)
VALUES (
    %(key_id)s, %(namespace)s, %(name)s, %(secret_hash)s, %(scopes)s, %(rotated_from)s, %(created_by)s,
    CASE WHEN %(days)s::float8 IS NOT NULL THEN clock_timestamp() + %(days)s * interval '1 day' END
)

-- name: note_use
-- At most once a minute, so that reading does not become writing.
UPDATE dag_api_keys
SET last_used_at = clock_timestamp()
WHERE key_id = %(key_id)s AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')
