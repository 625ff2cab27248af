-- name: job
-- The model says which columns are shown; those that are named here take the place of the column of that name.
-- `handlers` are those that are registered, for tasks that name no queue; only of a job that may still have to wait.
SELECT
    j.*,
    -- Receivers keep keys in the query.
    substring(j.callback_url FROM '^[^?#]+') AS callback_url,
    COALESCE(j.warnings, '[]') AS warnings,
    o.heartbeat_at AS owner_heartbeat_at,
    EXTRACT(EPOCH FROM COALESCE(j.completed_at, clock_timestamp()) - j.started_at)::float8 AS duration_seconds,
    clock_timestamp() AS seen_at,
    j.metadata->'rerun' AS rerun,
    COALESCE((SELECT jsonb_object_agg(l.key, l.value) FROM dag_job_labels AS l WHERE l.job_id = j.job_id), '{}') AS labels,
    CASE WHEN j.completed_at IS NULL THEN (
-- include: handlers
    ) END AS handlers
FROM dag_jobs AS j
LEFT JOIN dag_orchestrators AS o ON o.owner_id = j.owner_id
WHERE j.job_id = %(job_id)s AND j.namespace = %(namespace)s

-- name: job_head
SELECT
    job_id, namespace, workflow_id, workflow_version, workflow_hash, status, ending, owner_id, started_at,
    clock_timestamp() AS seen_at, metadata->'rerun' AS rerun, warnings IS NOT NULL AS has_warnings
FROM dag_jobs
WHERE job_id = %(job_id)s AND namespace = %(namespace)s

-- name: handlers
-- include: handlers

-- part: handlers
-- What all namespaces have comes first; then the namespace's own, of which older versions kept some in the same table.
SELECT jsonb_agg(jsonb_build_array(handler, aliases, queue, place = 0))
FROM (
    SELECT DISTINCT ON (handler) handler, aliases, queue, place
    FROM (
        SELECT handler, aliases, queue, CASE WHEN serves_namespace IS NULL THEN 0 ELSE 2 END AS place
        FROM dag_handlers
        WHERE serves_namespace IS NULL OR serves_namespace = %(namespace)s
        UNION ALL
        SELECT handler, aliases, queue, 1 FROM dag_namespace_handlers
        WHERE namespace = %(namespace)s
    ) AS known
    ORDER BY handler, place
) AS h

-- name: reruns_of
SELECT job_id, status FROM dag_jobs WHERE rerun_of = %(job_id)s AND root_job_id = %(root_job_id)s ORDER BY job_id

-- name: has_orchestrator
SELECT EXISTS (
    SELECT FROM dag_orchestrators
    WHERE heartbeat_at > clock_timestamp() - %(alive_seconds)s * interval '1 second' AND NOT stopping
)

-- name: open_job_counts
SELECT status, count(*) FROM dag_jobs WHERE namespace = %(namespace)s AND completed_at IS NULL GROUP BY status
