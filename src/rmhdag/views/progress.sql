-- name: current_tasks
-- Those that a worker holds, children too: never more than the window of a job lets out.
SELECT
    q.node_id, q.task_id, r.progress_current, r.progress_total, r.progress_percent, r.progress_message
FROM dag_queue_messages AS q
LEFT JOIN dag_task_results AS r ON r.task_id = q.task_id AND r.lease_epoch = q.lease_epoch
WHERE q.job_id = %(job_id)s AND q.worker_id IS NOT NULL AND q.worker_id NOT LIKE 'lost:%%'
ORDER BY q.started_at NULLS LAST, q.claimed_at, q.task_id
LIMIT %(limit)s

-- name: node
SELECT
    n.job_id, n.node_id, n.status, n.retry_count, n.max_retries, n.parent_node_id,
    CASE WHEN n.output ? 'dynamic_nodes' THEN (n.output->>'total')::int END AS total,
    CASE WHEN n.status IN ('dispatched', 'running') AND n.task_id IS NOT NULL THEN jsonb_build_object(
        'node_id', n.node_id, 'task_id', n.task_id, 'progress_current', r.progress_current,
        'progress_total', r.progress_total, 'progress_percent', r.progress_percent,
        'progress_message', r.progress_message) END AS task,
    CASE WHEN n.checkpoint_phase IS NOT NULL THEN jsonb_build_object(
        'phase', n.checkpoint_phase, 'saved_at', n.checkpoint_saved_at) END AS checkpoint
FROM dag_node_states AS n
LEFT JOIN LATERAL (
    SELECT * FROM dag_task_results AS t WHERE t.task_id = n.task_id ORDER BY t.lease_epoch DESC LIMIT 1
) AS r ON true
WHERE n.job_id = %(job_id)s AND n.node_id = %(node_id)s
