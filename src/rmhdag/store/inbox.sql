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
SELECT n.job_id, n.node_id, n.attempt, 'retry' AS timer
FROM dag_node_states AS n
JOIN dag_jobs AS j ON j.job_id = n.job_id AND j.owner_id = %(me)s AND j.completed_at IS NULL
WHERE n.next_attempt_at <= clock_timestamp()
UNION ALL
SELECT n.job_id, n.node_id, n.attempt, 'deadline'
FROM dag_node_states AS n
JOIN dag_jobs AS j ON j.job_id = n.job_id AND j.owner_id = %(me)s AND j.completed_at IS NULL
WHERE n.deadline_at <= clock_timestamp()
LIMIT %(limit)s
