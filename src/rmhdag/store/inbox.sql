-- name: read_inbox
-- Ordered by the key (owner_id, inbox_id). The mark spares the read the dead rows below it; numbers are minted before
-- they are committed, so once a second the read goes without it.
SELECT inbox_id, job_id, kind, node_id, task_id, lease_epoch, payload
FROM dag_inbox
WHERE owner_id = %(me)s AND inbox_id > %(mark)s
ORDER BY inbox_id
LIMIT %(limit)s

-- name: discard
DELETE FROM dag_inbox WHERE owner_id = %(me)s AND inbox_id = ANY(%(inbox)s)

-- name: due_timers
-- Both halves walk what is due from the earliest on and stop at enough of mine: from the jobs, every owned one would be
-- looked at. statement_timestamp(), because clock_timestamp() may change within the statement, and so no index can be
-- asked for it.
-- A deadline is void while what makes it stale is on its way. The inbox need not be searched for that: a report takes the
-- queue row with it, so a task whose row is gone has news waiting; a row that started later than the deadline supposes,
-- or not at all, was given back and claimed again; one that was lost comes back. Of nodes without a task, approvals may
-- have a command waiting and workflows a child job that has ended.
(
    SELECT n.job_id, n.node_id, n.attempt, 'retry' AS timer
    FROM dag_node_states AS n
    -- OFFSET 0 keeps the planner from beginning with the jobs after all.
    CROSS JOIN LATERAL (SELECT owner_id, completed_at FROM dag_jobs AS j WHERE j.job_id = n.job_id OFFSET 0) AS j
    WHERE n.next_attempt_at <= statement_timestamp() AND j.owner_id = %(me)s AND j.completed_at IS NULL
    ORDER BY n.next_attempt_at
    LIMIT %(limit)s
)
UNION ALL
(
    SELECT n.job_id, n.node_id, n.attempt, 'deadline'
    FROM dag_node_states AS n
    CROSS JOIN LATERAL (SELECT owner_id, completed_at FROM dag_jobs AS j WHERE j.job_id = n.job_id OFFSET 0) AS j
    LEFT JOIN LATERAL (
        SELECT task_id, worker_id, started_at, timeout_seconds
        FROM dag_queue_messages AS q
        WHERE q.task_id = n.task_id
        OFFSET 0
    ) AS q ON true
    WHERE %(deadlines)s AND n.deadline_at <= statement_timestamp() AND j.owner_id = %(me)s AND j.completed_at IS NULL
        AND CASE
            WHEN n.task_id IS NULL THEN
                NOT EXISTS (SELECT FROM dag_job_commands AS c WHERE c.job_id = n.job_id AND c.applied_at IS NULL)
            WHEN q.task_id IS NULL THEN (
                SELECT c.completed_at IS NULL
                FROM dag_jobs AS c
                WHERE c.parent_job_id = n.job_id AND c.parent_node_id = n.node_id
                ORDER BY c.created_at DESC
                LIMIT 1
            )
            WHEN starts_with(q.worker_id, 'lost:') THEN false
            WHEN n.status = 'running' THEN
                q.started_at + q.timeout_seconds * interval '1 second' <= statement_timestamp()
            ELSE q.started_at IS NULL
        END
    ORDER BY n.deadline_at
    LIMIT %(limit)s
)
