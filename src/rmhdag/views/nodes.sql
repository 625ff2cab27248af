-- name: nodes_of_definition
-- Looked up by their names: among a hundred thousand children they would have to be searched for.
-- include: summary
FROM (
    SELECT * FROM dag_node_states
    WHERE job_id = %(job_id)s AND node_id = ANY(%(nodes)s) AND node_id > %(after)s
        AND (%(statuses)s::node_status[] IS NULL OR status = ANY(%(statuses)s::node_status[]))
    ORDER BY node_id
    LIMIT %(limit)s
) AS n
-- include: result
ORDER BY n.node_id

-- name: all_nodes
-- include: summary
FROM (
    SELECT * FROM dag_node_states
    WHERE job_id = %(job_id)s AND node_id > %(after)s
        AND (%(statuses)s::node_status[] IS NULL OR status = ANY(%(statuses)s::node_status[]))
    ORDER BY node_id
    LIMIT %(limit)s
) AS n
-- include: result
ORDER BY n.node_id

-- name: children
-- include: summary
FROM (
    SELECT * FROM dag_node_states
    WHERE job_id = %(job_id)s AND parent_node_id = %(parent)s AND fan_out_index > %(after)s
        AND (%(statuses)s::node_status[] IS NULL OR status = ANY(%(statuses)s::node_status[]))
    ORDER BY fan_out_index
    LIMIT %(limit)s
) AS n
-- include: result
ORDER BY n.fan_out_index

-- name: nodes_by_name
-- Nodes of several jobs. 0 job_id, 1 node_id
-- include: summary
FROM jsonb_array_elements(%(keys)s::jsonb) AS k
CROSS JOIN LATERAL (
    SELECT * FROM dag_node_states AS s WHERE s.job_id = k->>0 AND s.node_id = k->>1 LIMIT 1
) AS n
-- include: result
WHERE %(statuses)s::node_status[] IS NULL OR n.status = ANY(%(statuses)s::node_status[])

-- part: summary
-- A fan-out's own output says how many children there will be.
SELECT
    n.job_id, n.node_id, n.status, n.attempt, n.retry_count, n.max_retries, n.lease_losses, n.task_id,
    n.reused_task_id, n.parent_node_id, n.fan_out_index, n.fan_out_item_key, n.next_attempt_at, n.deadline_at,
    n.created_at, n.ready_at, n.dispatched_at, n.started_at, n.completed_at, n.checkpoint_phase, n.error_message,
    n.error, COALESCE(r.warnings, '[]') AS warnings,
    CASE WHEN n.output ? 'dynamic_nodes' THEN (n.output->>'total')::int END AS children_total,
    EXTRACT(EPOCH FROM COALESCE(n.completed_at, statement_timestamp())
        - COALESCE(n.started_at, n.dispatched_at, n.ready_at))::float8 AS duration_seconds

-- part: result
LEFT JOIN dag_task_results AS r
    ON r.task_id = COALESCE(n.reused_task_id, n.task_id) AND r.status IN ('completed', 'failed', 'cancelled')

-- name: node
SELECT
    n.job_id, n.node_id, n.status, n.attempt, n.retry_count, n.max_retries, n.lease_losses, n.task_id,
    n.reused_task_id, n.parent_node_id, n.fan_out_index, n.fan_out_item_key, n.next_attempt_at, n.deadline_at,
    n.created_at, n.ready_at, n.dispatched_at, n.started_at, n.completed_at, n.checkpoint_phase,
    n.checkpoint_saved_at, n.error_message, n.error, COALESCE(r.warnings, '[]') AS warnings, n.input_params,
    COALESCE(n.output, r.output) AS output, r.worker_id, COALESCE(r.metrics, '{}') AS metrics, r.error_kind,
    r.execution_duration_ms
FROM dag_node_states AS n
-- include: result
WHERE n.job_id = %(job_id)s AND n.node_id = %(node_id)s

-- name: child_job
-- The newest: a retry begins another one.
SELECT job_id AS child_job_id, COALESCE(warnings, '[]') AS warnings
FROM dag_jobs
WHERE parent_job_id = %(job_id)s AND parent_node_id = %(node_id)s
ORDER BY created_at DESC, job_id
LIMIT 1

-- name: child_warnings
SELECT r.warnings
FROM dag_node_states AS n
JOIN dag_task_results AS r ON r.task_id = COALESCE(n.reused_task_id, n.task_id) AND r.status = 'completed'
WHERE n.job_id = %(job_id)s AND n.parent_node_id = %(node_id)s AND n.status = 'completed' AND r.warnings IS NOT NULL
ORDER BY n.fan_out_index

-- name: newest_jobs
SELECT job_id, created_at, workflow_id, workflow_version, workflow_hash
FROM dag_jobs
WHERE namespace = %(namespace)s AND (created_at, job_id) <= (%(until_at)s, %(until_id)s::text)
ORDER BY created_at DESC, job_id DESC
LIMIT %(limit)s

-- name: newest_open_jobs
SELECT job_id, created_at, workflow_id, workflow_version, workflow_hash
FROM dag_jobs
WHERE namespace = %(namespace)s AND completed_at IS NULL
    AND (created_at, job_id) <= (%(until_at)s, %(until_id)s::text)
ORDER BY created_at DESC, job_id DESC
LIMIT %(limit)s
