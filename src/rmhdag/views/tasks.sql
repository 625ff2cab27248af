-- name: queued_tasks
-- A task's id begins with its job's, so this is newest jobs first. Whose they are is asked of what was found: a look is
-- as long as it was meant to be, whatever it finds.
SELECT
    CASE
        WHEN q.worker_id IS NOT NULL THEN CASE WHEN q.started_at IS NULL THEN 'received' ELSE 'running' END
        ELSE CASE WHEN q.available_at IS NULL THEN 'waiting' ELSE 'delayed' END
    END AS status,
    q.task_id, q.lease_epoch, q.namespace, q.job_id, q.node_id, q.handler, q.queue, q.attempt, q.lease_losses,
    q.priority, q.worker_id, q.created_at, q.available_at, q.claimed_at, q.started_at,
    r.progress_percent, r.progress_message
FROM (
    SELECT *
    FROM dag_queue_messages
    WHERE (task_id, lease_epoch) < (%(before_id)s, %(before_epoch)s) AND task_id >= %(from_id)s
    ORDER BY task_id DESC, lease_epoch DESC
    LIMIT %(limit)s
) AS q
LEFT JOIN dag_task_results AS r ON r.task_id = q.task_id AND r.lease_epoch = q.lease_epoch
ORDER BY q.task_id DESC, q.lease_epoch DESC

-- name: reported_tasks
-- The workflow is null if the job is gone. What runs still stands in its queue: this is its progress.
SELECT
    r.task_id, r.lease_epoch, r.namespace, r.job_id, r.node_id, r.attempt, r.status, r.worker_id, r.started_at,
    r.reported_at, r.execution_duration_ms AS duration_ms, r.progress_percent, r.progress_message, r.error_kind, r.error_message,
    r.error, COALESCE(r.warnings, '[]') AS warnings, j.workflow_id, COALESCE(j.workflow_version, 0) AS workflow_version,
    COALESCE(j.workflow_hash, '') AS workflow_hash,
    r.status = 'running' AS is_shadow
FROM (
    SELECT *
    FROM dag_task_results
    WHERE (task_id, lease_epoch) < (%(before_id)s, %(before_epoch)s) AND task_id >= %(from_id)s
    ORDER BY task_id DESC, lease_epoch DESC
    LIMIT %(limit)s
) AS r
LEFT JOIN dag_jobs AS j ON j.job_id = r.job_id
ORDER BY r.task_id DESC, r.lease_epoch DESC
