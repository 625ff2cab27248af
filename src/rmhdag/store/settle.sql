-- `jsonb_typeof(r) = 'array'` is always true. It lets the planner expect one row, so that it looks up each row by its key,
-- whatever it knows about the size of the tables: left to itself it reads all of a table that was small when it planned,
-- for every batch, until somebody analyses it (30,000 tasks after the start that halved the throughput, and so on).
-- `num_nulls(x) = 1` is `x IS NULL` in words that no partial index has. Otherwise the planner, expecting one row of each,
-- walks the index over all open jobs for every row of the batch.

-- name: lock_jobs_and_inbox
-- The fence: only jobs that are still mine, at the epoch I hold, are written; the lock keeps it so until the commit.
-- IS NOT DISTINCT FROM is an equality that no index serves: all my jobs stand under one key of the owner's index.
-- A job that has ended since it was decided about is lost as well: a terminal row never changes.
-- Inbox rows are consumed in the same round trip, and only those of locked jobs: a row of a job that somebody is about
-- to take over may be locked by him, who may wait for another one that we hold. Who I am goes through the list, so that
-- both parts of the key come from there: the planner would rather begin with all that stands in my inbox.
-- 0 job_id, 1 owner_epoch, 2 has ended, 3 inbox ids
WITH locked AS MATERIALIZED (
    SELECT j.job_id, r->3 AS inbox
    FROM jsonb_array_elements(%(held)s::jsonb) AS r
    JOIN dag_jobs AS j ON j.job_id = r->>0 AND j.owner_epoch = (r->>1)::bigint
        AND (j.completed_at IS NOT NULL) = (r->>2)::boolean
    WHERE j.owner_id IS NOT DISTINCT FROM %(me)s AND jsonb_typeof(r) = 'array'
    ORDER BY j.job_id
    FOR NO KEY UPDATE OF j
), mine AS MATERIALIZED (
    SELECT %(me)s::text AS me, i::bigint AS inbox_id
    FROM locked, jsonb_array_elements(inbox) AS i
    WHERE jsonb_typeof(i) = 'number'
), consumed AS (
    DELETE FROM dag_inbox AS i
    USING mine
    WHERE i.owner_id = mine.me AND i.inbox_id = mine.inbox_id
    RETURNING i.inbox_id, i.task_id
)
SELECT job_id, NULL AS inbox_id, NULL AS task_id FROM locked
UNION ALL
SELECT NULL, inbox_id, task_id FROM consumed

-- name: insert_nodes
-- 0 job_id, 1 node_id, 2 status, 3 attempt, 4 max_retries, 5 task_id, 6 lease_losses, 7 next_attempt_at, 8 deadline_at,
-- 9 parent_node_id, 10 fan_out_index, 11 item_key, 12 input_params, 13 output, 14 error_message, 15 reused_task_id,
-- 16 namespace, 17 error if there is any
INSERT INTO dag_node_states (
    job_id, node_id, status, attempt, retry_count, max_retries, task_id, lease_losses, next_attempt_at, deadline_at,
    parent_node_id, fan_out_index, fan_out_item_key, input_params, output, error_message, reused_task_id,
    namespace, error, created_at, updated_at, ready_at, dispatched_at, started_at, completed_at
)
SELECT
    r->>0, r->>1, s.status, (r->>3)::int, (r->>3)::int - 1, (r->>4)::int, r->>5, (r->>6)::int,
    (r->>7)::timestamptz, (r->>8)::timestamptz, r->>9, (r->>10)::int, r->>11,
    COALESCE(NULLIF(r->12, 'null'), '{}'), NULLIF(r->13, 'null'), r->>14, r->>15, r->>16, r->17,
    %(now)s, %(now)s,
    CASE WHEN s.status NOT IN ('pending', 'skipped', 'cancelled') THEN %(now)s::timestamptz END,
    CASE WHEN s.status = 'dispatched' THEN %(now)s::timestamptz END,
    CASE WHEN s.status = 'running' THEN %(now)s::timestamptz END,
    CASE WHEN s.status IN ('completed', 'failed', 'skipped', 'cancelled') THEN %(now)s::timestamptz END
FROM jsonb_array_elements(%(nodes)s::jsonb) AS r, LATERAL (SELECT (r->>2)::node_status AS status) AS s

-- name: update_nodes
-- 0 job_id, 1 node_id, 2 status, 3 attempt, 4 task_id, 5 lease_losses, 6 next_attempt_at, 7 deadline_at, 8 input_params,
-- 9 output, 10 error_message, 11 reused_task_id, 12 checkpoint_phase, 13 checkpoint_data, 14 duration_ms, 15 error if
-- there is any: it goes with the message
UPDATE dag_node_states AS n
SET status = s.status,
    attempt = (r->>3)::int,
    retry_count = (r->>3)::int - 1,
    task_id = COALESCE(r->>4, n.task_id),
    lease_losses = (r->>5)::int,
    next_attempt_at = (r->>6)::timestamptz,
    deadline_at = (r->>7)::timestamptz,
    input_params = COALESCE(NULLIF(r->8, 'null'), n.input_params),
    output = COALESCE(NULLIF(r->9, 'null'), n.output),
    error_message = CASE WHEN s.status = 'completed' THEN NULL ELSE COALESCE(r->>10, n.error_message) END,
    error = CASE WHEN s.status = 'completed' THEN NULL WHEN r->>10 IS NULL THEN n.error ELSE r->15 END,
    reused_task_id = COALESCE(r->>11, n.reused_task_id),
    checkpoint_phase = COALESCE(r->>12, n.checkpoint_phase),
    checkpoint_data = CASE WHEN r->>12 IS NULL THEN n.checkpoint_data ELSE NULLIF(r->13, 'null') END,
    checkpoint_saved_at = CASE WHEN r->>12 IS NULL THEN n.checkpoint_saved_at ELSE %(now)s END,
    version = n.version + 1,
    updated_at = clock_timestamp(),
    ready_at = CASE WHEN s.status IN ('skipped', 'cancelled') THEN n.ready_at ELSE COALESCE(n.ready_at, %(now)s) END,
    dispatched_at = CASE s.status WHEN 'dispatched' THEN %(now)s WHEN 'ready' THEN NULL ELSE n.dispatched_at END,
    started_at = CASE s.status
        WHEN 'running' THEN COALESCE(n.started_at, %(now)s)
        WHEN 'dispatched' THEN NULL
        WHEN 'ready' THEN NULL
        ELSE COALESCE(n.started_at, %(now)s - (r->>14)::float8 * interval '1 millisecond') END,
    completed_at = CASE
        WHEN s.status IN ('completed', 'failed', 'skipped', 'cancelled') THEN %(now)s::timestamptz END
FROM jsonb_array_elements(%(nodes)s::jsonb) AS r, LATERAL (SELECT (r->>2)::node_status AS status) AS s
WHERE n.job_id = r->>0 AND n.node_id = r->>1 AND jsonb_typeof(r) = 'array'

-- name: cancel_children
UPDATE dag_node_states AS n
SET status = 'cancelled', next_attempt_at = NULL, completed_at = %(now)s, version = n.version + 1,
    updated_at = clock_timestamp()
FROM jsonb_array_elements(%(ranges)s::jsonb) AS r
WHERE n.job_id = r->>0 AND n.parent_node_id = r->>1 AND n.fan_out_index >= (r->>2)::int
    AND n.fan_out_index < (r->>3)::int AND n.status = 'ready' AND jsonb_typeof(r) = 'array'

-- name: insert_tasks
-- 0 task_id, 1 job_id, 2 node_id, 3 queue, 4 handler, 5 order_key, 6 attempt, 7 lease_losses, 8 timeout_seconds,
-- 9 priority, 10 fairness_key, 11 namespace, 12 params, 13 trace_parent
INSERT INTO dag_queue_messages (
    task_id, job_id, node_id, queue, handler, order_key, attempt, lease_losses, timeout_seconds, priority, fairness_key,
    namespace, params, trace_parent
)
SELECT
    r->>0, r->>1, r->>2, r->>3, r->>4, (r->>5)::bigint, (r->>6)::int, (r->>7)::int, (r->>8)::int, (r->>9)::smallint,
    r->>10, r->>11, r->12, r->>13
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
ON CONFLICT (task_id) DO NOTHING

-- name: insert_tasks_from_nodes
-- The same, where the node row has the parameters and perhaps a checkpoint: retries, and children of a fan-out.
INSERT INTO dag_queue_messages (
    task_id, job_id, node_id, queue, handler, order_key, attempt, lease_losses, timeout_seconds, priority, fairness_key,
    namespace, params, trace_parent, checkpoint_phase, checkpoint_data
)
SELECT
    r->>0, r->>1, r->>2, r->>3, r->>4, (r->>5)::bigint, (r->>6)::int, (r->>7)::int, (r->>8)::int, (r->>9)::smallint,
    r->>10, r->>11, n.input_params, r->>13, n.checkpoint_phase, n.checkpoint_data
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
JOIN dag_node_states AS n ON n.job_id = r->>1 AND n.node_id = r->>2 AND jsonb_typeof(r) = 'array'
ON CONFLICT (task_id) DO NOTHING

-- name: requeue_tasks
-- The lease epoch grows here and again with the claim, so that the lost worker's report matches nothing.
UPDATE dag_queue_messages AS q
SET worker_id = NULL, claimed_at = NULL, started_at = NULL, lease_epoch = q.lease_epoch + 1,
    lease_losses = (r->>2)::int, order_key = (r->>3)::bigint
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
WHERE q.task_id = r->>0 AND q.lease_epoch = (r->>1)::bigint AND jsonb_typeof(r) = 'array'

-- name: lock_tasks
-- Waits for a report under way; from here on there is none.
SELECT task_id, lease_epoch FROM dag_queue_messages WHERE task_id = ANY(%(tasks)s) ORDER BY task_id FOR UPDATE

-- name: reported_tasks
SELECT task_id FROM dag_task_results
WHERE task_id = ANY(%(tasks)s) AND status IN ('completed', 'failed', 'cancelled')

-- name: revoke_tasks
DELETE FROM dag_queue_messages WHERE task_id = ANY(%(tasks)s)

-- name: end_revoked_leases
-- A statement of its own, after the rows are gone: so it sees progress that was told until then, and later there is none.
UPDATE dag_task_results SET status = 'stale', reported_at = clock_timestamp()
WHERE task_id = ANY(%(tasks)s) AND status = 'running'

-- name: withdraw_unclaimed_tasks
WITH gone AS (
    DELETE FROM dag_queue_messages WHERE job_id = ANY(%(jobs)s) AND worker_id IS NULL
    RETURNING task_id, job_id, node_id, attempt, lease_epoch
)
INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
SELECT %(me)s, job_id, 'task_withdrawn', node_id, task_id, lease_epoch, jsonb_build_object('attempt', attempt)
FROM gone

-- name: tell_tasks_to_stop
-- All of them, before the unclaimed ones go: this waits for whoever is claiming one or giving one back at this moment, and
-- from here on nobody can. A condition on worker_id would be tested on the row as it was before.
UPDATE dag_queue_messages SET cancel_requested = true WHERE job_id = ANY(%(jobs)s)

-- name: insert_dead_letters
INSERT INTO dag_dead_letters (dead_letter_id, namespace, queue, reason, error_message, job_id, node_id, task_id, body)
SELECT r->>0, r->>1, r->>2, r->>3, r->>4, r->>5, r->>6, r->>7, r->8
FROM jsonb_array_elements(%(letters)s::jsonb) AS r

-- name: insert_events
-- 0 job_id, 1 seq, 2 namespace, 3 event_type, 4 event_status, 5 node_id, 6 task_id, 7 duration_ms, 8 error_message, 9 data
INSERT INTO dag_job_events (
    job_id, seq, created_at, namespace, event_type, event_status, node_id, task_id, duration_ms, error_message,
    event_data, source_app
)
SELECT
    r->>0, (r->>1)::bigint, %(now)s, r->>2, (r->>3)::event_type, (r->>4)::event_status, r->>5, r->>6, (r->>7)::bigint,
    r->>8, r->9, %(source_app)s
FROM jsonb_array_elements(%(events)s::jsonb) AS r

-- name: update_jobs
-- 0 job_id, 1 status, 2 ending, 3 result, 4 error_message, 5 error
UPDATE dag_jobs AS j
SET status = s.status,
    ending = COALESCE((r->>2)::job_ending, j.ending),
    result_data = COALESCE(NULLIF(r->3, 'null'), j.result_data),
    error_message = COALESCE(r->>4, j.error_message),
    error = COALESCE(NULLIF(r->5, 'null'), j.error),
    started_at = CASE WHEN s.status = 'running' THEN COALESCE(j.started_at, %(now)s) ELSE j.started_at END,
    completed_at = CASE WHEN s.status IN ('completed', 'failed', 'cancelled') THEN %(now)s::timestamptz END,
    version = j.version + 1,
    updated_at = clock_timestamp()
FROM jsonb_array_elements(%(jobs)s::jsonb) AS r, LATERAL (SELECT (r->>1)::job_status AS status) AS s
WHERE j.job_id = r->>0 AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: update_job_warnings
-- Only of jobs that have some. 0 job_id, 1 warnings
UPDATE dag_jobs AS j
SET warnings = r->1, version = j.version + 1, updated_at = clock_timestamp()
FROM jsonb_array_elements(%(jobs)s::jsonb) AS r
WHERE j.job_id = r->>0 AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: notify_parents
INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, payload)
SELECT COALESCE(j.owner_id, ''), j.job_id, 'child_job_ended', r->>1, r->2
FROM jsonb_array_elements(%(parents)s::jsonb) AS r
JOIN dag_jobs AS j ON j.job_id = r->>0 AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: cancel_child_jobs
-- A child job is told by its owner's inbox, like everybody else.
INSERT INTO dag_inbox (owner_id, job_id, kind, payload)
SELECT COALESCE(j.owner_id, ''), j.job_id, 'command', r->1
FROM jsonb_array_elements(%(children)s::jsonb) AS r
JOIN dag_jobs AS j ON j.job_id = r->>0 AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: answer_commands
-- An approval that is decided stands in the audit trail from the moment it counts.
WITH answered AS (
    UPDATE dag_job_commands AS c
    SET applied_at = %(now)s, outcome = (r->>1)::command_outcome, reason = r->>2
    FROM jsonb_array_elements(%(answers)s::jsonb) AS r
    WHERE c.command_id = r->>0 AND num_nulls(c.applied_at) = 1 AND jsonb_typeof(r) = 'array'
    RETURNING c.namespace, c.job_id, c.kind, c.outcome, c.issued_by, c.body
)
INSERT INTO dag_audit (namespace, actor, action, subject, after, reason)
SELECT
    namespace, issued_by, 'approval.decide', concat('job ', job_id, ', node ', body->>'node_id'),
    jsonb_build_object('approved', body->'approved'), left(body->>'reason', 2000)
FROM answered
WHERE kind = 'decide' AND outcome = 'applied'
