-- name: logs_of_job
-- A task's id begins with its job's, so this is one range of the key. A fan-out's children are called after it.
SELECT node_id, task_id, lease_epoch, chunk_index, created_at, truncated, content
FROM dag_task_logs
WHERE task_id >= %(job_id)s || '-' AND task_id < %(job_id)s || '.'
    AND (%(fan_out)s::text IS NULL
        OR (node_id >= %(fan_out)s::text || '__0' AND node_id < %(fan_out)s::text || '__:'))
    AND (created_at, task_id, lease_epoch, chunk_index)
        > (%(created_at)s, %(task_id)s::text, %(lease_epoch)s, %(chunk_index)s)
ORDER BY created_at, task_id, lease_epoch, chunk_index
LIMIT %(limit)s

-- name: logs_of_tasks
SELECT node_id, task_id, lease_epoch, chunk_index, created_at, truncated, content
FROM dag_task_logs
WHERE task_id = ANY(%(tasks)s)
    AND (created_at, task_id, lease_epoch, chunk_index)
        > (%(created_at)s, %(task_id)s::text, %(lease_epoch)s, %(chunk_index)s)
ORDER BY created_at, task_id, lease_epoch, chunk_index
LIMIT %(limit)s

-- name: last_logs_of_job
SELECT node_id, task_id, lease_epoch, chunk_index, created_at, truncated, content
FROM dag_task_logs
WHERE task_id >= %(job_id)s || '-' AND task_id < %(job_id)s || '.'
    AND (%(fan_out)s::text IS NULL
        OR (node_id >= %(fan_out)s::text || '__0' AND node_id < %(fan_out)s::text || '__:'))
ORDER BY created_at DESC, task_id DESC, lease_epoch DESC, chunk_index DESC
LIMIT %(limit)s

-- name: last_logs_of_tasks
SELECT node_id, task_id, lease_epoch, chunk_index, created_at, truncated, content
FROM dag_task_logs
WHERE task_id = ANY(%(tasks)s)
ORDER BY created_at DESC, task_id DESC, lease_epoch DESC, chunk_index DESC
LIMIT %(limit)s

-- name: attempts
-- Nodes that were ever sent to a worker; a task's id follows from job, node and attempt.
SELECT node_id, attempt, reused_task_id
FROM dag_node_states
WHERE job_id = %(job_id)s AND (task_id IS NOT NULL OR reused_task_id IS NOT NULL)
    AND (node_id = %(node_id)s OR parent_node_id = %(node_id)s)
ORDER BY COALESCE(dispatched_at, ready_at, created_at), fan_out_index, node_id
