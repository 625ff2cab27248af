-- name: nodes
-- Those of the definition; children of fan-outs are counted. A fan-out's own output says how many there will be. What a
-- node waits for is read with it: what its running task says, its message in the queue and who could take it, what a
-- person is asked. Of a node that has ended none of that is looked up.
SELECT
    n.node_id, n.status, n.attempt, n.retry_count, n.max_retries, n.lease_losses, n.task_id, n.reused_task_id,
    n.next_attempt_at, n.deadline_at, n.created_at, n.ready_at, n.dispatched_at, n.started_at, n.completed_at,
    n.checkpoint_phase, n.error_message, n.error,
    CASE WHEN n.output ? 'dynamic_nodes' THEN (n.output->>'total')::int END AS total,
    EXTRACT(EPOCH FROM
        COALESCE(n.completed_at, clock_timestamp()) - COALESCE(n.started_at, n.dispatched_at, n.ready_at))::float8
    AS duration_seconds,
    CASE WHEN n.node_id = ANY(%(conditionals)s) THEN n.output->'taken' END AS taken,
    c.job_id AS child_job_id, r.progress, a.message, q.queue, q.handler, q.available_at, w.workers, w.able
FROM dag_node_states AS n
LEFT JOIN LATERAL (
    -- A retry begins another one.
    SELECT j.job_id FROM dag_jobs AS j
    WHERE j.parent_job_id = n.job_id AND j.parent_node_id = n.node_id
    ORDER BY j.created_at DESC, j.job_id
    LIMIT 1
) AS c ON n.task_id IS NOT NULL AND n.node_id = ANY(%(workflows)s)
LEFT JOIN LATERAL (
    SELECT jsonb_build_object(
        'node_id', t.node_id, 'task_id', t.task_id, 'progress_current', t.progress_current,
        'progress_total', t.progress_total, 'progress_percent', t.progress_percent,
        'progress_message', t.progress_message) AS progress
    FROM dag_task_results AS t
    WHERE t.task_id = n.task_id AND t.status = 'running'
    ORDER BY t.lease_epoch DESC
    LIMIT 1
) AS r ON n.status = 'running'
LEFT JOIN dag_waiting_approvals AS a ON n.status = 'running' AND a.job_id = n.job_id AND a.node_id = n.node_id
LEFT JOIN LATERAL (
    SELECT m.queue, m.handler, CASE WHEN m.available_at > clock_timestamp() THEN m.available_at END AS available_at
    FROM dag_queue_messages AS m
    WHERE m.task_id = n.task_id
) AS q ON n.status = 'dispatched'
LEFT JOIN LATERAL (
    SELECT
        count(*) AS workers,
        count(*) FILTER (WHERE handlers IS NULL OR jsonb_exists(handlers, q.handler)) AS able
    FROM dag_workers
    WHERE heartbeat_at > clock_timestamp() - %(alive_seconds)s * interval '1 second' AND NOT draining
        AND COALESCE(serves_namespace, %(namespace)s) = %(namespace)s AND jsonb_exists(queues, q.queue)
) AS w ON q.queue IS NOT NULL
WHERE n.job_id = %(job_id)s AND n.node_id = ANY(%(nodes)s)
