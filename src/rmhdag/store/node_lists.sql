-- name: nodes_of_definition
-- Looked up by their names: among a hundred thousand children they would have to be searched for.
SELECT
    job_id, node_id, status, attempt, retry_count, max_retries, lease_losses, task_id, reused_task_id, parent_node_id,
    fan_out_index, fan_out_item_key, next_attempt_at, deadline_at, created_at, ready_at, dispatched_at, started_at,
    completed_at, checkpoint_phase, error_message, error,
    CASE WHEN output ? 'dynamic_nodes' THEN (output->>'total')::int END AS children_total,
    EXTRACT(EPOCH FROM COALESCE(completed_at, statement_timestamp())
        - COALESCE(started_at, dispatched_at, ready_at))::float8 AS duration_seconds
FROM dag_node_states
WHERE job_id = %(job_id)s AND node_id = ANY(%(nodes)s) AND node_id > %(after)s
    AND (%(statuses)s::node_status[] IS NULL OR status = ANY(%(statuses)s::node_status[]))
ORDER BY node_id
LIMIT %(limit)s

-- name: all_nodes
SELECT
    job_id, node_id, status, attempt, retry_count, max_retries, lease_losses, task_id, reused_task_id, parent_node_id,
    fan_out_index, fan_out_item_key, next_attempt_at, deadline_at, created_at, ready_at, dispatched_at, started_at,
    completed_at, checkpoint_phase, error_message, error,
    CASE WHEN output ? 'dynamic_nodes' THEN (output->>'total')::int END AS children_total,
    EXTRACT(EPOCH FROM COALESCE(completed_at, statement_timestamp())
        - COALESCE(started_at, dispatched_at, ready_at))::float8 AS duration_seconds
FROM dag_node_states
WHERE job_id = %(job_id)s AND node_id > %(after)s
    AND (%(statuses)s::node_status[] IS NULL OR status = ANY(%(statuses)s::node_status[]))
ORDER BY node_id
LIMIT %(limit)s

-- name: children
SELECT
    job_id, node_id, status, attempt, retry_count, max_retries, lease_losses, task_id, reused_task_id, parent_node_id,
    fan_out_index, fan_out_item_key, next_attempt_at, deadline_at, created_at, ready_at, dispatched_at, started_at,
    completed_at, checkpoint_phase, error_message, error, NULL::int AS children_total,
    EXTRACT(EPOCH FROM COALESCE(completed_at, statement_timestamp())
        - COALESCE(started_at, dispatched_at, ready_at))::float8 AS duration_seconds
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id = %(parent)s AND fan_out_index > %(after)s
    AND (%(statuses)s::node_status[] IS NULL OR status = ANY(%(statuses)s::node_status[]))
ORDER BY fan_out_index
LIMIT %(limit)s

-- name: nodes_by_name
-- Nodes of several jobs. 0 job_id, 1 node_id
SELECT
    n.job_id, n.node_id, n.status, n.attempt, n.retry_count, n.max_retries, n.lease_losses, n.task_id,
    n.reused_task_id, n.parent_node_id, n.fan_out_index, n.fan_out_item_key, n.next_attempt_at, n.deadline_at,
    n.created_at, n.ready_at, n.dispatched_at, n.started_at, n.completed_at, n.checkpoint_phase, n.error_message,
    n.error,
    CASE WHEN n.output ? 'dynamic_nodes' THEN (n.output->>'total')::int END AS children_total,
    EXTRACT(EPOCH FROM COALESCE(n.completed_at, statement_timestamp())
        - COALESCE(n.started_at, n.dispatched_at, n.ready_at))::float8 AS duration_seconds
FROM jsonb_array_elements(%(wanted)s::jsonb) AS r
CROSS JOIN LATERAL (
    SELECT * FROM dag_node_states AS s WHERE s.job_id = r->>0 AND s.node_id = r->>1 LIMIT 1
) AS n
WHERE %(statuses)s::node_status[] IS NULL OR n.status = ANY(%(statuses)s::node_status[])

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
