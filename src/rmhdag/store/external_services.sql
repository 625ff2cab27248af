-- name: find
SELECT
    service_id, namespace, name, kind::text, url, enabled, failures, created_by, created_at, updated_at, settings, secret
FROM dag_external_services
WHERE namespace = %(namespace)s AND name = %(name)s

-- name: find_and_lock
SELECT
    service_id, namespace, name, kind::text, url, enabled, failures, created_by, created_at, updated_at, settings, secret
FROM dag_external_services
WHERE namespace = %(namespace)s AND name = %(name)s
FOR NO KEY UPDATE

-- name: list
SELECT
    service_id, namespace, name, kind::text, url, enabled, failures, created_by, created_at, updated_at, settings, secret
FROM dag_external_services
WHERE namespace = %(namespace)s
ORDER BY name
LIMIT %(limit)s

-- name: put
INSERT INTO dag_external_services AS s (
    service_id, namespace, name, kind, url, enabled, created_by, settings, secret
)
VALUES (
    %(service_id)s, %(namespace)s, %(name)s, %(kind)s::service_kind, %(url)s, %(enabled)s, %(by)s,
    %(settings)s::jsonb, %(secret)s
)
ON CONFLICT (namespace, name) DO UPDATE SET
    url = EXCLUDED.url, enabled = EXCLUDED.enabled, settings = EXCLUDED.settings, secret = EXCLUDED.secret,
    updated_at = clock_timestamp()
WHERE s.service_id = EXCLUDED.service_id

-- name: delete_calls
WITH gone AS (DELETE FROM dag_service_calls WHERE namespace = %(namespace)s AND service_id = %(service_id)s RETURNING status)
SELECT count(*) FILTER (WHERE status = 'pending') FROM gone

-- name: delete
DELETE FROM dag_external_services WHERE service_id = %(service_id)s

-- name: settle_letters
UPDATE dag_dead_letters
SET settled_at = clock_timestamp(), settled_by = %(by)s, settled_as = 'requeued'
WHERE namespace = %(namespace)s AND reason = %(reason)s AND body->>'call_id' = %(call_id)s AND settled_at IS NULL
