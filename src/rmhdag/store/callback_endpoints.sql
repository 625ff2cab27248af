-- name: insert_endpoint
INSERT INTO dag_callback_endpoints (endpoint_id, namespace, url, secret, created_by)
VALUES (%(endpoint_id)s, %(namespace)s, %(url)s, %(secret)s, %(by)s)
ON CONFLICT (namespace, url) DO NOTHING
RETURNING endpoint_id

-- name: find_sealed_by_file
SELECT namespace, url, secret
FROM dag_callback_endpoints
WHERE starts_with(secret, 'keyed:')
LIMIT 1

-- name: find_by_url
SELECT
    endpoint_id, namespace, url, created_by, created_at, updated_at, rotated_at, previous_expires_at, disabled_at,
    disabled_reason, secret,
    CASE WHEN previous_expires_at > clock_timestamp() THEN previous_secret END
FROM dag_callback_endpoints
WHERE namespace = %(namespace)s AND url = %(url)s

-- name: find
SELECT
    endpoint_id, namespace, url, created_by, created_at, updated_at, rotated_at, previous_expires_at, disabled_at,
    disabled_reason, secret,
    CASE WHEN previous_expires_at > clock_timestamp() THEN previous_secret END
FROM dag_callback_endpoints
WHERE namespace = %(namespace)s AND endpoint_id = %(endpoint_id)s

-- name: list
SELECT
    endpoint_id, namespace, url, created_by, created_at, updated_at, rotated_at, previous_expires_at, disabled_at,
    disabled_reason, secret,
    CASE WHEN previous_expires_at > clock_timestamp() THEN previous_secret END
FROM dag_callback_endpoints
WHERE namespace = %(namespace)s AND (%(after)s::text IS NULL OR endpoint_id > %(after)s)
ORDER BY endpoint_id
LIMIT %(limit)s

-- name: rotate_secret
-- What signed until now goes on signing for a while, beside the new one.
UPDATE dag_callback_endpoints
SET previous_secret = secret, secret = %(secret)s, rotated_at = clock_timestamp(),
    previous_expires_at = clock_timestamp() + %(overlap_seconds)s * interval '1 second'
WHERE namespace = %(namespace)s AND endpoint_id = %(endpoint_id)s

-- name: disable_endpoint
UPDATE dag_callback_endpoints
SET disabled_at = clock_timestamp(), disabled_reason = %(reason)s
WHERE namespace = %(namespace)s AND url = %(url)s AND disabled_at IS NULL

-- name: enable_endpoint
UPDATE dag_callback_endpoints
SET disabled_at = NULL, disabled_reason = NULL
WHERE namespace = %(namespace)s AND url = %(url)s
