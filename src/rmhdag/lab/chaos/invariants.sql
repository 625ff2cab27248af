-- Each query gives (subject, what is wrong) and nothing if all is well. %(since)s bounds it to what has changed lately;
-- the last check takes everything.

-- name: i1_an_end_has_one_event
SELECT j.job_id, format('%%s with %%s events of its end', j.status, count(e.seq))
FROM dag_jobs AS j
LEFT JOIN dag_job_events AS e
    ON e.job_id = j.job_id AND e.event_type IN ('job_completed', 'job_failed', 'job_cancelled')
WHERE j.completed_at >= %(since)s
GROUP BY j.job_id
HAVING count(e.seq) <> 1 OR min(e.event_type::text) <> 'job_' || j.status::text

-- name: i2_i3_i10_witnessed
SELECT subject, invariant || ' ' || what FROM chaos_seen

-- name: i4_nothing_starts_early
SELECT n.job_id, format('%%s is %%s (ready %%s) but %%s is %%s (%%s)', n.node_id, n.status, n.ready_at, d.node_id, d.status,
    d.completed_at)
FROM dag_jobs AS j
JOIN dag_node_states AS n ON n.job_id = j.job_id AND n.updated_at >= %(since)s
JOIN chaos_edges AS e ON e.workflow_id = j.workflow_id AND e.target = n.node_id AND e.needed = 'all_of'
JOIN dag_node_states AS d ON d.job_id = n.job_id AND d.node_id = e.source
WHERE n.status NOT IN ('pending', 'skipped', 'cancelled')
    AND (d.status NOT IN ('completed', 'skipped') OR n.ready_at < d.completed_at)

-- name: i6_one_result_per_node
SELECT r.job_id, format('%%s has %%s completed results', r.node_id, count(*))
FROM dag_task_results AS r
WHERE r.status = 'completed' AND r.reported_at >= %(since)s
GROUP BY r.job_id, r.node_id
HAVING count(*) > 1

-- name: i6_completed_means_a_result
SELECT n.job_id, format('%%s completed by task %%s, which has no such result', n.node_id, n.task_id)
FROM dag_node_states AS n
WHERE n.status = 'completed' AND n.task_id IS NOT NULL AND n.updated_at >= %(since)s
    AND NOT EXISTS (SELECT FROM dag_task_results AS r WHERE r.task_id = n.task_id AND r.status = 'completed')
    -- A child job's end is no task's result.
    AND NOT EXISTS (
        SELECT FROM dag_jobs AS j
        JOIN chaos_nodes AS c ON c.workflow_id = j.workflow_id AND c.node_id = n.node_id AND c.node_type = 'workflow'
        WHERE j.job_id = n.job_id
    )

-- name: i7_attempts_are_bounded
SELECT n.job_id, format('%%s is at attempt %%s of %%s', n.node_id, n.attempt, n.max_retries + 1)
FROM dag_node_states AS n
WHERE n.attempt > n.max_retries + 1 AND n.updated_at >= %(since)s

-- name: i7_attempts_are_logged
SELECT r.job_id, format('%%s: %%s outcomes in %%s attempts', r.node_id, count(*), n.attempt)
FROM dag_task_results AS r
JOIN dag_node_states AS n ON n.job_id = r.job_id AND n.node_id = r.node_id AND n.completed_at >= %(since)s
WHERE r.status IN ('completed', 'failed', 'cancelled')
GROUP BY r.job_id, r.node_id, n.attempt
HAVING count(*) > n.attempt

-- name: i8_events_have_no_gaps
SELECT e.job_id, format('%%s events, the last is number %%s', count(*), max(e.seq))
FROM dag_job_events AS e
JOIN dag_jobs AS j ON j.job_id = e.job_id AND j.completed_at >= %(since)s
GROUP BY e.job_id
HAVING count(*) <> max(e.seq) OR count(DISTINCT e.seq) <> count(*)

-- A fan-out that a rerun does not run again leaves its children with the job that made them.
-- name: i8_children_are_all_there
SELECT n.job_id, format('%%s says %%s, %%s children are there', n.node_id, n.output->>'total', count(c.node_id))
FROM dag_node_states AS n
JOIN dag_jobs AS j ON j.job_id = n.job_id AND coalesce(j.metadata->'rerun'->'again' ? n.node_id, true)
LEFT JOIN dag_node_states AS c ON c.job_id = n.job_id AND c.parent_node_id = n.node_id
WHERE n.status = 'completed' AND n.output ? 'dynamic_nodes' AND n.updated_at >= %(since)s
GROUP BY n.job_id, n.node_id, n.output
HAVING count(c.node_id) <> (n.output->>'total')::int OR count(c.node_id) <> count(c.completed_at)

-- name: i9_nothing_completes_twice
SELECT e.job_id, format('%%s completed %%s times', e.node_id, count(*))
FROM dag_job_events AS e
JOIN dag_jobs AS j ON j.job_id = e.job_id AND j.updated_at >= %(since)s
WHERE e.event_type = 'node_completed'
GROUP BY e.job_id, e.node_id
HAVING count(*) > 1

-- name: i10_the_outbox_is_delivered
SELECT message_id, format('pending after %%s attempts', attempts)
FROM dag_outbox
WHERE status = 'pending' AND created_at < now() - %(stale_seconds)s * interval '1 second'

-- name: i10_settled_means_tried
SELECT message_id, format('%%s after %%s attempts: %%s', status, attempts, last_error)
FROM dag_outbox
WHERE status <> 'pending' AND settled_at >= %(since)s
    AND (attempts < 1 OR (status = 'dead' AND last_error IS NULL))

-- name: i10_ends_are_told
SELECT j.job_id, 'ended without a callback'
FROM dag_jobs AS j
WHERE j.callback_url IS NOT NULL AND j.completed_at >= %(since)s
    AND NOT EXISTS (SELECT FROM dag_callbacks AS c WHERE c.job_id = j.job_id)

-- name: i10_callbacks_are_tried
SELECT callback_id, format('%%s after %%s attempts, due %%s: %%s', status, attempts, next_attempt_at, last_error)
FROM dag_callbacks
WHERE (status = 'pending' AND next_attempt_at < now() - %(stale_seconds)s * interval '1 second')
    OR (status IN ('delivered', 'dead') AND attempts < 1 AND settled_at >= %(since)s)

-- name: i11_no_task_of_the_dead
SELECT q.job_id, format('%%s is held by %%s, silent since %%s', q.node_id, q.worker_id, w.heartbeat_at)
FROM dag_queue_messages AS q
LEFT JOIN dag_workers AS w ON w.worker_id = q.worker_id
WHERE q.worker_id IS NOT NULL AND q.claimed_at < now() - %(stale_seconds)s * interval '1 second'
    AND COALESCE(w.heartbeat_at, '-infinity') < now() - %(stale_seconds)s * interval '1 second'

-- name: i11_no_job_of_the_dead
SELECT j.job_id, format('owned by %%s, silent since %%s', j.owner_id, o.heartbeat_at)
FROM dag_jobs AS j
LEFT JOIN dag_orchestrators AS o ON o.owner_id = j.owner_id
WHERE j.completed_at IS NULL AND j.created_at < now() - %(stale_seconds)s * interval '1 second'
    AND COALESCE(o.heartbeat_at, '-infinity') < now() - %(stale_seconds)s * interval '1 second'
    AND j.updated_at < now() - %(stale_seconds)s * interval '1 second'

-- name: ends_are_whole
SELECT j.job_id, format('%%s, but %%s is %%s', j.status, n.node_id, n.status)
FROM dag_jobs AS j
JOIN dag_node_states AS n ON n.job_id = j.job_id
WHERE j.completed_at >= %(since)s AND (
    n.completed_at IS NULL OR n.next_attempt_at IS NOT NULL
    OR (j.status = 'completed' AND n.status NOT IN ('completed', 'skipped'))
)

-- name: approvals_are_listed_while_they_wait
SELECT a.job_id, format('%%s is listed as waiting, and is %%s', a.node_id, COALESCE(n.status::text, 'not there'))
FROM dag_waiting_approvals AS a
LEFT JOIN dag_node_states AS n USING (job_id, node_id)
WHERE n.status IS DISTINCT FROM 'running'

-- name: no_task_outlives_its_job
SELECT q.job_id, format('task %%s is still queued', q.task_id)
FROM dag_queue_messages AS q
JOIN dag_jobs AS j ON j.job_id = q.job_id AND j.completed_at IS NOT NULL

-- name: payloads_are_there_for_their_jobs
SELECT u.holder, format('uses payload %%s, which is not there', u.sha256)
FROM dag_payload_uses AS u
WHERE u.created_at >= %(since)s
    AND NOT EXISTS (SELECT FROM dag_payloads AS p WHERE p.namespace = u.namespace AND p.sha256 = u.sha256)

-- name: labels_go_with_their_jobs
-- Their time is the job's, which was not deleted before its retention.
SELECT l.job_id, format('label %%s is left', l.key)
FROM dag_job_labels AS l
WHERE l.created_at < now() - %(stale_seconds)s * interval '1 s'
    AND NOT EXISTS (SELECT FROM dag_jobs AS j WHERE j.job_id = l.job_id)
    AND NOT EXISTS (SELECT FROM dag_pruned_jobs AS p WHERE p.job_id = l.job_id)

-- name: uses_of_payloads_go_with_their_jobs
SELECT u.sha256, format('used by job %%s, which is not there', u.holder)
FROM dag_payload_uses AS u
WHERE u.holder NOT LIKE '%%:%%' AND u.created_at < now() - %(stale_seconds)s * interval '1 s'
    AND NOT EXISTS (SELECT FROM dag_jobs AS j WHERE j.job_id = u.holder)
    AND NOT EXISTS (SELECT FROM dag_pruned_jobs AS p WHERE p.job_id = u.holder)
