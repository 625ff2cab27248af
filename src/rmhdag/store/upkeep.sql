-- name: tasks_without_a_row
-- Dispatched, but neither queued nor reported: whatever lost the row, the node would wait for ever.
SELECT n.job_id, n.node_id, n.attempt, n.task_id
FROM dag_jobs AS j
JOIN dag_node_states AS n ON n.job_id = j.job_id
WHERE j.owner_id = %(me)s AND j.completed_at IS NULL
    AND n.status IN ('dispatched', 'running') AND n.task_id IS NOT NULL
    AND n.updated_at < clock_timestamp() - %(seconds)s * interval '1 second'
    AND NOT EXISTS (SELECT FROM dag_queue_messages AS q WHERE q.task_id = n.task_id)
    AND NOT EXISTS (SELECT FROM dag_inbox AS i WHERE i.task_id = n.task_id)
    AND NOT EXISTS (SELECT FROM dag_jobs AS c WHERE c.parent_job_id = n.job_id AND c.parent_node_id = n.node_id)
LIMIT 1000

-- name: jobs_without_progress
-- The latest change of any node is a job's progress.
SELECT j.job_id, j.owner_epoch, j.namespace, p.changed_at, clock_timestamp() - p.changed_at AS silence
FROM dag_jobs AS j
CROSS JOIN LATERAL (
    SELECT GREATEST(j.updated_at, max(n.updated_at)) AS changed_at FROM dag_node_states AS n WHERE n.job_id = j.job_id
) AS p
WHERE j.owner_id = %(me)s AND j.completed_at IS NULL AND j.status = 'running' AND j.job_id > %(after)s
    AND p.changed_at < clock_timestamp() - %(seconds)s * interval '1 second'
ORDER BY j.job_id
LIMIT %(limit)s

-- name: what_jobs_wait_for
-- One reason for each job that has one: a task that nobody has claimed or that runs, a retry that is not due yet. What
-- was claimed and never started is no reason.
SELECT DISTINCT ON (w.job_id) w.job_id, w.waits_for, bool_and(w.for_a_worker) OVER (PARTITION BY w.job_id)
FROM (
    SELECT q.job_id, q.available_at IS NULL AND q.worker_id IS NULL AS for_a_worker,
        CASE
            WHEN q.available_at IS NOT NULL THEN format('node %%s to be called again at %%s', q.node_id, q.available_at)
            WHEN q.worker_id IS NULL THEN format('a worker for node %%s in queue %%s', q.node_id, q.queue)
            ELSE format('worker %%s, which runs node %%s', q.worker_id, q.node_id)
        END AS waits_for
    FROM dag_queue_messages AS q
    WHERE q.job_id = ANY(%(jobs)s) AND (q.worker_id IS NULL OR q.started_at IS NOT NULL)
    UNION ALL
    SELECT n.job_id, false, format('the retry of node %%s at %%s', n.node_id, n.next_attempt_at)
    FROM dag_node_states AS n
    WHERE n.job_id = ANY(%(jobs)s) AND n.next_attempt_at > clock_timestamp()
) AS w
ORDER BY w.job_id, w.waits_for

-- name: jobs_not_begun
SELECT job_id FROM dag_jobs
WHERE owner_id = %(me)s AND completed_at IS NULL AND status = 'pending'
    AND created_at < clock_timestamp() - %(seconds)s * interval '1 second'
ORDER BY job_id
LIMIT %(limit)s

-- name: unfinished_fans
-- A fan-in has no worker, so one that is ready and has no task waits for its reduction. The row of a fan-out names the
-- number of its children; if the last of them is missing, the expansion is under way, or nobody goes on with it.
SELECT n.job_id, n.node_id
FROM dag_jobs AS j
JOIN dag_node_states AS n ON n.job_id = j.job_id AND n.parent_node_id IS NULL
WHERE j.owner_id = %(me)s AND j.completed_at IS NULL AND j.ending IS NULL AND j.status = 'running'
    AND n.updated_at < clock_timestamp() - %(seconds)s * interval '1 second'
    AND (
        n.status = 'ready' AND n.task_id IS NULL AND n.next_attempt_at IS NULL AND n.input_params = '{}'
        OR n.status = 'running' AND n.output ? 'total' AND NOT EXISTS (
            SELECT FROM dag_node_states AS c
            WHERE c.job_id = n.job_id AND c.parent_node_id = n.node_id AND c.parent_node_id IS NOT NULL
                AND c.fan_out_index = (n.output->>'total')::int - 1
        )
    )
LIMIT %(limit)s

-- name: open_nodes
SELECT node_id, status FROM dag_node_states
WHERE job_id = %(job_id)s AND status IN ('ready', 'dispatched', 'running') AND parent_node_id IS NULL

-- name: job_definition_key
SELECT namespace, workflow_id, workflow_version, workflow_hash FROM dag_jobs WHERE job_id = %(job_id)s

-- name: mark_processed_results
-- A result and its inbox row are written together, so one snapshot shows both or only the result.
UPDATE dag_task_results AS r
SET processed = true
FROM (
    SELECT t.task_id, t.lease_epoch
    FROM unnest(%(jobs)s::text[]) AS j
    JOIN dag_task_results AS t ON t.task_id >= j || '-' AND t.task_id < j || '.'
    WHERE NOT t.processed AND t.status NOT IN ('received', 'running')
        AND NOT EXISTS (SELECT FROM dag_inbox AS i WHERE i.task_id = t.task_id)
    LIMIT %(limit)s
) AS handled
WHERE r.task_id = handled.task_id AND r.lease_epoch = handled.lease_epoch

-- name: release_some_jobs
WITH surplus AS MATERIALIZED (
    SELECT job_id FROM dag_jobs
    WHERE owner_id = %(me)s AND completed_at IS NULL
        AND NOT EXISTS (SELECT FROM unnest(%(busy)s::text[]) AS b WHERE b = job_id)
    ORDER BY job_id DESC
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE dag_jobs AS j SET owner_id = NULL FROM surplus WHERE j.job_id = surplus.job_id RETURNING j.job_id

-- name: unaddress_inbox_of
UPDATE dag_inbox SET owner_id = '' WHERE owner_id = %(me)s AND job_id = ANY(%(jobs)s)

-- name: jobs_per_owner
SELECT o.owner_id, count(j.job_id)
FROM dag_orchestrators AS o
LEFT JOIN dag_jobs AS j ON j.owner_id = o.owner_id AND j.completed_at IS NULL
WHERE NOT o.stopping
GROUP BY o.owner_id
