-- name: list_identities
SELECT identity_id, client_id, issuer, kind, value, scopes, created_by, created_at, expires_at, last_used_at
FROM dag_client_identities
WHERE namespace = %(namespace)s AND client_id = %(client_id)s
    AND (%(identity_id)s::text IS NULL OR identity_id = %(identity_id)s)
ORDER BY identity_id

-- name: add_identity
INSERT INTO dag_client_identities (
    identity_id, namespace, client_id, issuer, kind, value, scopes, created_by, expires_at
)
VALUES (
    %(identity_id)s, %(namespace)s, %(client_id)s, %(issuer)s, %(kind)s::identity_kind, %(value)s, %(scopes)s::jsonb,
    %(created_by)s,
    CASE WHEN %(days)s::float8 IS NOT NULL THEN clock_timestamp() + %(days)s * interval '1 day' END
)
ON CONFLICT (issuer, kind, value) DO NOTHING

-- name: remove_identity
DELETE FROM dag_client_identities
WHERE namespace = %(namespace)s AND client_id = %(client_id)s AND identity_id = %(identity_id)s

-- name: note_uses_of_identities
-- Like keys, at most once a minute.
UPDATE dag_client_identities
SET last_used_at = clock_timestamp()
WHERE identity_id = ANY(%(ids)s::text[])
    AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')

-- name: note_uses_of_keys
UPDATE dag_api_keys
SET last_used_at = clock_timestamp()
WHERE key_id = ANY(%(ids)s::text[]) AND kind = 'key'
    AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')
