-- `jsonb_typeof(r) = 'array'` is always true. It lets the planner expect one row, so that it looks up each row by its key,
-- whatever it knows about the size of the tables: left to itself it reads all of a table that was small when it planned,
-- for every batch, until somebody analyses it (30,000 tasks after the start that halved the throughput, and so on).
-- `OFFSET 0` lets a status be read from its text once per row: flattened, the planner repeats the cast, which looks the
-- label up, wherever the status is used (update_nodes took 23 us per task, of which 5 were that).
-- `num_nulls(x) = 1` is `x IS NULL` in words that no partial index has. Otherwise the planner, expecting one row of each,
-- walks the index over all open jobs for every row of the batch.

-- name: lock_jobs_and_inbox
-- The fence: only jobs that are still mine, at the epoch I hold, are written; the lock keeps it so until the commit.
-- IS NOT DISTINCT FROM is an equality that no index serves: all my jobs stand under one key of the owner's index.
-- A job that has ended since it was decided about is lost as well: a terminal row never changes.
-- Inbox rows are consumed in the same round trip, and only those of locked jobs: a row of a job that somebody is about
-- to take over may be locked by him, who may wait for another one that we hold. The jobs are looked up in an object: a
-- join would compare each row with every job. Who I am goes through the list, so that both parts of the key come from
-- there: the planner would rather begin with all that stands in my inbox. `num_nulls(x) = 0`, always true, is rare to it.
-- One row of texts comes back, because the driver reads them far faster than 130 rows.
-- row: HeldJob
WITH locked AS MATERIALIZED (
    SELECT j.job_id
    FROM jsonb_array_elements(%(held)s::jsonb) AS r
    JOIN dag_jobs AS j ON j.job_id = r->>{job_id} AND j.owner_epoch = (r->>{owner_epoch})::bigint
        AND (j.completed_at IS NOT NULL) = (r->>{has_ended})::boolean
    WHERE j.owner_id IS NOT DISTINCT FROM %(me)s AND jsonb_typeof(r) = 'array'
    ORDER BY j.job_id
    FOR NO KEY UPDATE OF j
), mine AS MATERIALIZED (
    SELECT %(me)s::text AS me, number AS inbox_id
    FROM unnest(%(inbox)s::bigint[]) AS number
    WHERE num_nulls(number) = 0
), consumed AS (
    DELETE FROM dag_inbox AS i
    USING mine
    WHERE i.owner_id = mine.me AND i.inbox_id = mine.inbox_id
        AND jsonb_exists((SELECT jsonb_object_agg(job_id, 0) FROM locked), i.job_id)
    RETURNING i.inbox_id, i.task_id
)
SELECT
    (SELECT string_agg(job_id, ' ') FROM locked),
    (SELECT string_agg(concat(inbox_id, ':', task_id), ' ') FROM consumed)

-- name: insert_nodes
-- row: NewNode
INSERT INTO dag_node_states (
    job_id, node_id, status, attempt, retry_count, max_retries, task_id, lease_losses, next_attempt_at, deadline_at,
    parent_node_id, fan_out_index, fan_out_item_key, input_params, output, error_message, reused_task_id,
    namespace, error, created_at, updated_at, ready_at, dispatched_at, started_at, completed_at
)
SELECT
    r->>{job_id}, r->>{node_id}, s.status, (r->>{attempt})::int, (r->>{attempt})::int - 1, (r->>{max_retries})::int,
    r->>{task_id}, (r->>{lease_losses})::int,
    (r->>{next_attempt_at})::timestamptz, (r->>{deadline_at})::timestamptz, r->>{parent_node_id},
    (r->>{fan_out_index})::int, r->>{item_key},
    COALESCE(NULLIF(r->{input_params}, 'null'), '{}'), NULLIF(r->{output}, 'null'), r->>{error_message},
    r->>{reused_task_id}, r->>{namespace}, NULLIF(r->{error}, 'null'),
    %(now)s, %(now)s,
    CASE WHEN s.status NOT IN ('pending', 'skipped', 'cancelled') THEN %(now)s::timestamptz END,
    CASE WHEN s.status = 'dispatched' THEN %(now)s::timestamptz END,
    CASE WHEN s.status = 'running' THEN %(now)s::timestamptz END,
    CASE WHEN s.status IN ('completed', 'failed', 'skipped', 'cancelled') THEN %(now)s::timestamptz END
FROM (SELECT r, (r->>{status})::node_status AS status FROM jsonb_array_elements(%(nodes)s::jsonb) AS r OFFSET 0) AS s

-- name: update_nodes
-- row: NodeChange
UPDATE dag_node_states AS n
SET status = s.status,
    attempt = (r->>{attempt})::int,
    retry_count = (r->>{attempt})::int - 1,
    task_id = COALESCE(r->>{task_id}, n.task_id),
    lease_losses = (r->>{lease_losses})::int,
    next_attempt_at = (r->>{next_attempt_at})::timestamptz,
    deadline_at = (r->>{deadline_at})::timestamptz,
    input_params = COALESCE(NULLIF(r->{input_params}, 'null'), n.input_params),
    output = COALESCE(NULLIF(r->{output}, 'null'), n.output),
    error_message = CASE WHEN s.status = 'completed' THEN NULL ELSE COALESCE(r->>{error_message}, n.error_message) END,
    error = CASE WHEN s.status = 'completed' THEN NULL WHEN r->>{error_message} IS NULL THEN n.error
        ELSE NULLIF(r->{error}, 'null') END,
    reused_task_id = COALESCE(r->>{reused_task_id}, n.reused_task_id),
    checkpoint_phase = COALESCE(r->>{checkpoint_phase}, n.checkpoint_phase),
    checkpoint_data = CASE WHEN r->>{checkpoint_phase} IS NULL THEN n.checkpoint_data
        ELSE NULLIF(r->{checkpoint_data}, 'null') END,
    checkpoint_saved_at = CASE WHEN r->>{checkpoint_phase} IS NULL THEN n.checkpoint_saved_at ELSE %(now)s END,
    version = n.version + 1,
    updated_at = clock_timestamp(),
    ready_at = CASE WHEN s.status IN ('skipped', 'cancelled') THEN n.ready_at ELSE COALESCE(n.ready_at, %(now)s) END,
    dispatched_at = CASE s.status WHEN 'dispatched' THEN %(now)s WHEN 'ready' THEN NULL ELSE n.dispatched_at END,
    started_at = CASE s.status
        WHEN 'running' THEN COALESCE(n.started_at, %(now)s)
        WHEN 'dispatched' THEN NULL
        WHEN 'ready' THEN NULL
        ELSE COALESCE(n.started_at, %(now)s - (r->>{duration_ms})::float8 * interval '1 millisecond') END,
    completed_at = CASE
        WHEN s.status IN ('completed', 'failed', 'skipped', 'cancelled') THEN %(now)s::timestamptz END
FROM (
    SELECT r, (r->>{status})::node_status AS status
    FROM jsonb_array_elements(%(nodes)s::jsonb) AS r
    WHERE jsonb_typeof(r) = 'array'
    OFFSET 0
) AS s
WHERE n.job_id = r->>{job_id} AND n.node_id = r->>{node_id}

-- name: cancel_children
-- row: PieceOfFanOut
UPDATE dag_node_states AS n
SET status = 'cancelled', next_attempt_at = NULL, completed_at = %(now)s, version = n.version + 1,
    updated_at = clock_timestamp()
FROM jsonb_array_elements(%(ranges)s::jsonb) AS r
WHERE n.job_id = r->>{job_id} AND n.parent_node_id = r->>{fan_out_id} AND n.fan_out_index >= (r->>{start})::int
    AND n.fan_out_index < (r->>{stop})::int AND n.status = 'ready' AND jsonb_typeof(r) = 'array'

-- name: insert_tasks
-- row: QueuedTaskRow
INSERT INTO dag_queue_messages (
    task_id, job_id, node_id, queue, handler, order_key, attempt, lease_losses, timeout_seconds, priority, fairness_key,
    namespace, params, trace_parent
)
SELECT
    r->>{task_id}, r->>{job_id}, r->>{node_id}, r->>{queue}, r->>{handler}, (r->>{order_key})::bigint,
    (r->>{attempt})::int, (r->>{lease_losses})::int, (r->>{timeout_seconds})::int, (r->>{priority})::smallint,
    r->>{fairness_key}, r->>{namespace}, r->{params}, r->>{trace_parent}
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
ON CONFLICT (task_id) DO NOTHING

-- name: insert_tasks_from_nodes
-- The same, where the node row has the parameters and perhaps a checkpoint: retries, and children of a fan-out.
-- row: QueuedTaskRow
INSERT INTO dag_queue_messages (
    task_id, job_id, node_id, queue, handler, order_key, attempt, lease_losses, timeout_seconds, priority, fairness_key,
    namespace, params, trace_parent, checkpoint_phase, checkpoint_data
)
SELECT
    r->>{task_id}, r->>{job_id}, r->>{node_id}, r->>{queue}, r->>{handler}, (r->>{order_key})::bigint,
    (r->>{attempt})::int, (r->>{lease_losses})::int, (r->>{timeout_seconds})::int, (r->>{priority})::smallint,
    r->>{fairness_key}, r->>{namespace}, n.input_params, r->>{trace_parent}, n.checkpoint_phase, n.checkpoint_data
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
JOIN dag_node_states AS n ON n.job_id = r->>{job_id} AND n.node_id = r->>{node_id} AND jsonb_typeof(r) = 'array'
ON CONFLICT (task_id) DO NOTHING

-- name: requeue_tasks
-- The lease epoch grows here and again with the claim, so that the lost worker's report matches nothing.
-- row: RequeuedTask
UPDATE dag_queue_messages AS q
SET worker_id = NULL, claimed_at = NULL, started_at = NULL, lease_epoch = q.lease_epoch + 1,
    lease_losses = (r->>{lease_losses})::int, order_key = (r->>{order_key})::bigint
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
WHERE q.task_id = r->>{task_id} AND q.lease_epoch = (r->>{lease_epoch})::bigint AND jsonb_typeof(r) = 'array'

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
-- All of them, before the unclaimed ones go: this waits for workers that are claiming one or giving one back now, and
-- from here on none can. A condition on worker_id would be tested on the row as it was before.
UPDATE dag_queue_messages SET cancel_requested = true WHERE job_id = ANY(%(jobs)s)

-- name: insert_dead_letters
-- row: DeadLetterRow
INSERT INTO dag_dead_letters (dead_letter_id, namespace, queue, reason, error_message, job_id, node_id, task_id, body)
SELECT
    r->>{dead_letter_id}, r->>{namespace}, r->>{queue}, r->>{reason}, r->>{error_message}, r->>{job_id}, r->>{node_id},
    r->>{task_id}, r->{body}
FROM jsonb_array_elements(%(letters)s::jsonb) AS r

-- name: insert_events
-- row: JobEventRow
INSERT INTO dag_job_events (
    job_id, seq, created_at, namespace, event_type, event_status, node_id, task_id, duration_ms, error_message,
    event_data, source_app
)
SELECT
    r->>{job_id}, (r->>{seq})::bigint, %(now)s, r->>{namespace}, (r->>{event_type})::event_type,
    (r->>{event_status})::event_status, r->>{node_id}, r->>{task_id}, (r->>{duration_ms})::bigint,
    r->>{error_message}, r->{data}, %(source_app)s
FROM jsonb_array_elements(%(events)s::jsonb) AS r

-- name: update_jobs
-- row: JobChange
UPDATE dag_jobs AS j
SET status = s.status,
    ending = COALESCE((r->>{ending})::job_ending, j.ending),
    result_data = COALESCE(NULLIF(r->{result}, 'null'), j.result_data),
    error_message = COALESCE(r->>{error_message}, j.error_message),
    error = COALESCE(NULLIF(r->{error}, 'null'), j.error),
    started_at = CASE WHEN s.status = 'running' THEN COALESCE(j.started_at, %(now)s) ELSE j.started_at END,
    completed_at = CASE WHEN s.status IN ('completed', 'failed', 'cancelled') THEN %(now)s::timestamptz END,
    version = j.version + 1,
    updated_at = clock_timestamp()
FROM (
    SELECT r, (r->>{status})::job_status AS status
    FROM jsonb_array_elements(%(jobs)s::jsonb) AS r
    WHERE jsonb_typeof(r) = 'array'
    OFFSET 0
) AS s
WHERE j.job_id = r->>{job_id} AND num_nulls(j.completed_at) = 1

-- name: update_job_warnings
-- Only of jobs that have some.
-- row: JobWarnings
UPDATE dag_jobs AS j
SET warnings = r->{warnings}, version = j.version + 1, updated_at = clock_timestamp()
FROM jsonb_array_elements(%(jobs)s::jsonb) AS r
WHERE j.job_id = r->>{job_id} AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: notify_parents
-- row: ParentNotice
INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, payload)
SELECT COALESCE(j.owner_id, ''), j.job_id, 'child_job_ended', r->>{parent_node_id}, r->{payload}
FROM jsonb_array_elements(%(parents)s::jsonb) AS r
JOIN dag_jobs AS j ON j.job_id = r->>{parent_job_id} AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: cancel_child_jobs
-- A child job is told by its owner's inbox, like everybody else.
-- row: ChildCancellation
INSERT INTO dag_inbox (owner_id, job_id, kind, payload)
SELECT COALESCE(j.owner_id, ''), j.job_id, 'command', r->{command}
FROM jsonb_array_elements(%(children)s::jsonb) AS r
JOIN dag_jobs AS j ON j.job_id = r->>{child_job_id} AND num_nulls(j.completed_at) = 1 AND jsonb_typeof(r) = 'array'

-- name: answer_commands
-- An approval that is decided stands in the audit trail from the moment it counts.
-- row: CommandAnswer
WITH answered AS (
    UPDATE dag_job_commands AS c
    SET applied_at = %(now)s, outcome = (r->>{outcome})::command_outcome, reason = r->>{reason}
    FROM jsonb_array_elements(%(answers)s::jsonb) AS r
    WHERE c.command_id = r->>{command_id} AND num_nulls(c.applied_at) = 1 AND jsonb_typeof(r) = 'array'
    RETURNING c.namespace, c.job_id, c.kind, c.outcome, c.issued_by, c.body
)
INSERT INTO dag_audit (namespace, actor, action, subject, after, reason)
SELECT
    namespace, issued_by, 'approval.decide', concat('job ', job_id, ', node ', body->>'node_id'),
    jsonb_build_object('approved', body->'approved'), left(body->>'reason', 2000)
FROM answered
WHERE kind = 'decide' AND outcome = 'applied'
