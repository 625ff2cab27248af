-- name: last_completions
SELECT
    job_id, workflow_id, completed_at, EXTRACT(EPOCH FROM completed_at - started_at)::float8 AS duration_seconds
FROM dag_jobs
WHERE namespace = %(namespace)s AND completed_at IS NOT NULL AND status = 'completed'
ORDER BY completed_at DESC
LIMIT 100

-- name: last_failures
-- Failures are rare, so the index of the unsuccessful finds them; among the newest of them the last to end.
SELECT
    job_id, workflow_id, completed_at, EXTRACT(EPOCH FROM completed_at - started_at)::float8 AS duration_seconds,
    error_message
FROM (
    SELECT * FROM dag_jobs
    WHERE namespace = %(namespace)s AND status = 'failed'
    ORDER BY created_at DESC, job_id DESC
    LIMIT 200
) AS newest
ORDER BY completed_at DESC
LIMIT 100

-- name: failing_handlers
-- A result names no handler: the definition of its job does. Children stand under their fan-out there.
WITH failed AS (
    SELECT job_id, node_id, error_message, reported_at
    FROM dag_task_results
    WHERE reported_at > clock_timestamp() - interval '1 hour' AND status = 'failed' AND namespace = %(namespace)s
    LIMIT %(limit)s
),
named AS (
    SELECT
        f.error_message, f.reported_at, w.definition->'nodes'->COALESCE(n.parent_node_id, n.node_id)->'task' AS task
    FROM failed AS f
    JOIN dag_jobs AS j ON j.job_id = f.job_id
    JOIN dag_node_states AS n ON n.job_id = f.job_id AND n.node_id = f.node_id
    JOIN dag_workflows AS w
        ON w.namespace = j.namespace AND w.workflow_id = j.workflow_id AND w.version = j.workflow_version
        AND w.hash = j.workflow_hash
)
SELECT
    task->>'handler' AS handler, task->>'queue' AS queue, count(*) AS failures,
    (array_agg(error_message ORDER BY reported_at DESC))[1] AS last_error, max(reported_at) AS last_failed_at
FROM named
WHERE task IS NOT NULL
GROUP BY 1, 2
ORDER BY 3 DESC, 1, 2
LIMIT 100

-- name: orchestrator_events
SELECT owner_id, created_at, event_type, event_status, error_message, event_data
FROM dag_orchestrator_events
WHERE (%(owners)s::text[] IS NULL OR owner_id = ANY(%(owners)s::text[]))
    -- A stall names a job, which is for its namespace to know.
    AND (event_data->>'job_id' IS NULL OR EXISTS (
        SELECT FROM dag_jobs AS j WHERE j.job_id = event_data->>'job_id' AND j.namespace = %(namespace)s))
    -- The words of an error may quote anybody's values.
    AND (%(with_errors)s OR error_message IS NULL)
ORDER BY event_id DESC
LIMIT 100

-- name: takeovers
-- No index names the type of an event, so the newest are looked through.
SELECT job_id, node_id, created_at, event_type, event_data
FROM (
    SELECT job_id, node_id, created_at, namespace, event_type, event_data
    FROM dag_job_events
    ORDER BY transaction_id DESC
    LIMIT %(looked_at)s
) AS newest
WHERE namespace = %(namespace)s AND event_type IN ('job_reclaimed', 'node_lost')
ORDER BY created_at DESC
LIMIT 50
