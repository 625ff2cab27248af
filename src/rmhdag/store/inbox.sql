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
-- From what is due to whose it is: the other way round every owned job would be looked at. statement_timestamp(), because
-- clock_timestamp() may change within the statement, and so no index can be asked for it.
WITH due AS MATERIALIZED (
    SELECT job_id, node_id, attempt, 'retry' AS timer
    FROM dag_node_states
    WHERE next_attempt_at <= statement_timestamp()
    UNION ALL
    SELECT job_id, node_id, attempt, 'deadline'
    FROM dag_node_states
    WHERE deadline_at <= statement_timestamp()
)
SELECT due.job_id, due.node_id, due.attempt, due.timer
FROM due
-- OFFSET 0 keeps the planner from beginning with the jobs after all.
CROSS JOIN LATERAL (SELECT owner_id, completed_at FROM dag_jobs AS j WHERE j.job_id = due.job_id OFFSET 0) AS j
WHERE j.owner_id = %(me)s AND j.completed_at IS NULL
LIMIT %(limit)s
