-- name: find_client
SELECT client_id, active, quotas, changed_by, updated_at FROM dag_clients
WHERE namespace = %(namespace)s AND client_id = %(client_id)s

-- name: list_clients
SELECT client_id, active, quotas, changed_by, updated_at FROM dag_clients
WHERE namespace = %(namespace)s AND client_id > %(after)s
ORDER BY client_id
LIMIT %(limit)s

-- name: set_client
-- null takes the client's own value away.
INSERT INTO dag_clients (namespace, client_id, active, quotas, changed_by)
VALUES (
    %(namespace)s, %(client_id)s, COALESCE(%(active)s, true), jsonb_strip_nulls(%(quotas)s::jsonb), %(changed_by)s
)
ON CONFLICT (namespace, client_id) DO UPDATE
SET active = COALESCE(%(active)s, dag_clients.active),
    quotas = jsonb_strip_nulls(dag_clients.quotas || %(quotas)s::jsonb),
    changed_by = EXCLUDED.changed_by, updated_at = clock_timestamp()
RETURNING client_id, active, quotas, changed_by, updated_at

-- name: hold_orders
SELECT pg_advisory_xact_lock(
    hashtextextended('rmhdag orders ' || current_schema() || ' ' || %(namespace)s::text || ' ' || %(client_id)s::text, 0)
)

-- name: count_orders
-- Counting stops at the limits.
SELECT
    (
        SELECT count(*) FROM (
            SELECT FROM dag_jobs AS j
            JOIN dag_api_requests AS r ON r.job_id = j.job_id
            WHERE j.namespace = %(namespace)s AND j.completed_at IS NULL
                AND r.namespace = %(namespace)s AND r.client_id = %(client_id)s
            LIMIT %(open_limit)s
        ) AS open
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM dag_api_requests
            WHERE namespace = %(namespace)s AND client_id = %(client_id)s
                AND created_at > clock_timestamp() - interval '1 day'
            LIMIT %(day_limit)s
        ) AS today
    )
