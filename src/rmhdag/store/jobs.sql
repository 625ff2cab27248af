-- name: insert_jobs
-- Idempotent by (namespace, submitted_by, idempotency_key) and by job_id: a repeat inserts nothing.
INSERT INTO dag_jobs (
    job_id, namespace, workflow_id, workflow_version, workflow_hash, priority, depth, fairness_key, submitted_by,
    correlation_id, idempotency_key, callback_url, request_id, parent_job_id, parent_node_id, rerun_of, root_job_id,
    asset_id, revision, input_params, metadata
)
SELECT
    r->>'job_id', r->>'namespace', r->>'workflow_id', (r->>'workflow_version')::int, r->>'workflow_hash',
    (r->>'priority')::smallint, (r->>'depth')::smallint, r->>'fairness_key', r->>'submitted_by',
    r->>'correlation_id', r->>'idempotency_key', r->>'callback_url', r->>'request_id', r->>'parent_job_id',
    r->>'parent_node_id', r->>'rerun_of', r->>'root_job_id', r->>'asset_id', (r->>'revision')::int,
    r->'input_params', r->'metadata'
FROM jsonb_array_elements(%(jobs)s::jsonb) AS r
ON CONFLICT DO NOTHING
RETURNING job_id

-- name: submit_jobs
-- The same with the first event and the word to orchestrators, as one statement: six round trips less per submission.
WITH given AS MATERIALIZED (
    SELECT r FROM jsonb_array_elements(%(jobs)s::jsonb) AS r
),
inserted AS (
    INSERT INTO dag_jobs (
        job_id, namespace, workflow_id, workflow_version, workflow_hash, priority, depth, fairness_key, submitted_by,
        correlation_id, idempotency_key, callback_url, request_id, parent_job_id, parent_node_id, rerun_of,
        root_job_id, asset_id, revision, input_params, metadata
    )
    SELECT
        r->>'job_id', r->>'namespace', r->>'workflow_id', (r->>'workflow_version')::int, r->>'workflow_hash',
        (r->>'priority')::smallint, (r->>'depth')::smallint, r->>'fairness_key', r->>'submitted_by',
        r->>'correlation_id', r->>'idempotency_key', r->>'callback_url', r->>'request_id', r->>'parent_job_id',
        r->>'parent_node_id', r->>'rerun_of', r->>'root_job_id', r->>'asset_id', (r->>'revision')::int,
        r->'input_params', r->'metadata'
    FROM given
    ON CONFLICT DO NOTHING
    RETURNING job_id
),
told AS (
    INSERT INTO dag_job_events (job_id, seq, created_at, namespace, event_type, event_status, source_app, event_data)
    SELECT i.job_id, 1, clock_timestamp(), r->>'namespace', 'job_created', 'info', %(source_app)s,
        jsonb_build_object('workflow_id', r->>'workflow_id', 'input_params', r->'shown_params')
    FROM given
    JOIN inserted AS i ON i.job_id = r->>'job_id'
)
SELECT array_agg(job_id), CASE WHEN count(*) > 0 THEN pg_notify('rmhdag_jobs', '')::text END FROM inserted

-- name: find_by_idempotency_keys
-- row: SubmissionKey
SELECT j.submitted_by, j.idempotency_key, j.job_id, j.metadata->>'submission_digest'
FROM jsonb_array_elements(%(keys)s::jsonb) AS r
JOIN dag_jobs AS j
    ON j.namespace = %(namespace)s AND j.submitted_by = r->>{submitted_by} AND j.idempotency_key = r->>{idempotency_key}

-- name: open_jobs_of
SELECT job_id FROM dag_jobs WHERE owner_id = %(me)s AND completed_at IS NULL ORDER BY job_id

-- name: owned_head
SELECT owner_epoch, namespace FROM dag_jobs
WHERE job_id = %(job_id)s AND owner_id = %(me)s AND completed_at IS NULL

-- name: reclaim_from_myself
-- Whatever of the old transaction is still under way finds another epoch, or holds the row and is waited for.
WITH mine AS MATERIALIZED (
    SELECT job_id
    FROM dag_jobs
    WHERE job_id = ANY(%(jobs)s) AND owner_id = %(me)s AND completed_at IS NULL
    ORDER BY job_id
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE dag_jobs AS j
SET owner_epoch = j.owner_epoch + 1
FROM mine
WHERE j.job_id = mine.job_id
RETURNING j.job_id

-- name: open_among
SELECT job_id FROM dag_jobs WHERE job_id = ANY(%(jobs)s) AND owner_id = %(me)s AND completed_at IS NULL

-- name: claim_unowned_jobs
-- Minting owner_epoch + 1 fences every earlier owner; state is loaded only after this has committed.
WITH unowned AS MATERIALIZED (
    SELECT job_id
    FROM dag_jobs
    WHERE owner_id IS NULL AND completed_at IS NULL AND job_id > %(after)s
    ORDER BY owner_id, job_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE dag_jobs AS j
SET owner_id = %(me)s, owner_epoch = j.owner_epoch + 1
FROM unowned
WHERE j.job_id = unowned.job_id
RETURNING j.job_id, j.owner_epoch, j.namespace

-- name: claim_orphaned_jobs
WITH orphaned AS MATERIALIZED (
    SELECT job_id, owner_id
    FROM dag_jobs
    WHERE owner_id = ANY(%(dead)s) AND completed_at IS NULL
    ORDER BY job_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE dag_jobs AS j
SET owner_id = %(me)s, owner_epoch = j.owner_epoch + 1
FROM orphaned
WHERE j.job_id = orphaned.job_id
RETURNING j.job_id, j.owner_epoch, j.namespace, orphaned.owner_id

-- name: readdress_inbox
-- Rows of the jobs just claimed, whichever owner they were addressed to.
UPDATE dag_inbox SET owner_id = %(me)s WHERE owner_id = ANY(%(from)s) AND job_id = ANY(%(jobs)s)

-- name: release_jobs
UPDATE dag_jobs SET owner_id = NULL WHERE owner_id = %(me)s AND completed_at IS NULL RETURNING job_id

-- name: unaddress_inbox
UPDATE dag_inbox SET owner_id = '' WHERE owner_id = %(me)s

-- name: adopt_strays
-- Rows written for an owner that had just lost the job, or for nobody while it was being claimed.
UPDATE dag_inbox AS i
SET owner_id = j.owner_id
FROM dag_jobs AS j
WHERE j.job_id = i.job_id AND j.owner_id = %(me)s AND i.owner_id <> %(me)s

-- name: discard_inbox_of_ended_jobs
-- Nobody's, those for an orchestrator that is gone, and mine if the loop has left them lying: it reads them itself, and
-- answers commands to jobs that have ended. A living orchestrator looks after its own.
DELETE FROM dag_inbox AS i
WHERE (
        i.owner_id = %(me)s AND i.created_at < clock_timestamp() - interval '10 seconds'
        OR i.owner_id = '' OR NOT EXISTS (SELECT FROM dag_orchestrators AS o WHERE o.owner_id = i.owner_id)
    )
    AND NOT EXISTS (SELECT FROM dag_jobs AS j WHERE j.job_id = i.job_id AND j.completed_at IS NULL)

-- name: load_jobs
-- In the order in which they are asked for. A job that comes after more stored bytes than one turn may read does not fit:
-- its values stay behind. The first one always fits. Sizes are those on disk, which PostgreSQL knows without unpacking.
SELECT
    job_id, namespace, workflow_id, workflow_version, workflow_hash, status, ending, error_message, error, warnings,
    CASE WHEN fits THEN input_params END AS input_params, priority, fairness_key, depth, parent_job_id, parent_node_id,
    rerun_of, started_at, owner_epoch, submitted_by, root_job_id, callback_url, asset_id, revision,
    CASE WHEN fits THEN metadata END AS metadata, fits
FROM (
    SELECT j.*, COALESCE(
        sum(pg_column_size(j.input_params) + pg_column_size(j.metadata))
            OVER (ORDER BY j.turn ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) < %(bytes)s AS fits
    FROM (
        SELECT *, array_position(%(jobs)s::text[], job_id::text) AS turn
        FROM dag_jobs
        WHERE job_id = ANY(%(jobs)s::text[]) AND owner_id IS NOT DISTINCT FROM %(me)s
    ) AS j
) AS loaded
ORDER BY turn

-- name: load_nodes
-- Nodes of the definition, by key: children of fan-outs stand between them. `turns` numbers the jobs; a job fits or not as
-- a whole, as above. `output` is what the engine made; `result` is that of the task, of this job or the one it reruns.
SELECT
    job_id, node_id, status, attempt, lease_losses, next_attempt_at, deadline_at, error_message,
    CASE WHEN fits THEN output END AS output, CASE WHEN fits THEN result END AS result, fits
FROM (
    SELECT
        n.job_id, n.node_id, n.status, n.attempt, n.lease_losses, n.next_attempt_at, n.deadline_at, n.error_message,
        n.output, r.output AS result,
        sum(s.stored_bytes) OVER (ORDER BY w.turn) - sum(s.stored_bytes) OVER (PARTITION BY w.turn) < %(bytes)s AS fits
    FROM unnest(%(turns)s::int[], %(jobs)s::text[], %(nodes)s::text[], %(are_read)s::bool[])
        AS w (turn, job_id, node_id, is_read)
    JOIN dag_node_states AS n ON n.job_id = w.job_id AND n.node_id = w.node_id
    LEFT JOIN dag_task_results AS r
        ON w.is_read AND n.status = 'completed' AND r.task_id = COALESCE(n.reused_task_id, n.task_id)
        AND r.status = 'completed'
    CROSS JOIN LATERAL (
        SELECT COALESCE(pg_column_size(n.output), 0) + COALESCE(pg_column_size(r.output), 0) AS stored_bytes
    ) AS s
) AS loaded

-- name: load_children
-- Pieces of fan-outs: two bytes for each child, in the order of their indexes, and columns of those under way only.
-- A failed child keeps its attempt for a retry by hand, which goes on from there.
-- row: PieceOfFanOut
SELECT r->>{job_id} AS job_id, r->>{fan_out_id} AS fan_out_id, (r->>{start})::int AS start, c.*
FROM jsonb_array_elements(%(pieces)s::jsonb) AS r
CROSS JOIN LATERAL (
    SELECT
        COALESCE(string_agg(set_byte('\x00', 0, array_position(%(statuses)s::node_status[], n.status) - 1), ''), '') AS statuses,
        COALESCE(string_agg(set_byte('\x00', 0, CASE n.status WHEN 'failed' THEN n.attempt ELSE 0 END), ''), '') AS attempts,
        max(n.fan_out_index) AS last_index,
        (json_agg(json_build_array(n.fan_out_index, n.attempt, n.lease_losses, n.next_attempt_at, n.deadline_at)) FILTER (
            WHERE n.status IN ('dispatched', 'running')
                OR (n.status = 'ready' AND (n.attempt > 1 OR n.next_attempt_at IS NOT NULL))
        ))::text AS under_way,
        min(n.fan_out_index) FILTER (WHERE n.status = 'failed' AND n.error IS NOT NULL) AS error_index,
        (array_agg(n.error) FILTER (WHERE n.status = 'failed' AND n.error IS NOT NULL))[1] AS error
    FROM (
        SELECT fan_out_index, status, attempt, lease_losses, next_attempt_at, deadline_at, error
        FROM dag_node_states
        WHERE job_id = r->>{job_id} AND parent_node_id = r->>{fan_out_id}
            AND fan_out_index >= (r->>{start})::int AND fan_out_index < (r->>{stop})::int
        ORDER BY fan_out_index
    ) AS n
) AS c

-- name: load_outputs
SELECT task_id, output FROM dag_task_results WHERE task_id = ANY(%(tasks)s) AND status = 'completed'

-- name: load_results
SELECT job_id, result_data FROM dag_jobs WHERE job_id = ANY(%(jobs)s) AND result_data IS NOT NULL

-- name: load_warnings
SELECT warnings FROM dag_jobs WHERE job_id = %(job_id)s

-- name: last_event_numbers
SELECT j.job_id, COALESCE(
    (SELECT e.seq FROM dag_job_events AS e WHERE e.job_id = j.job_id ORDER BY e.seq DESC LIMIT 1), 0)
FROM unnest(%(jobs)s::text[]) AS j (job_id)

-- name: load_workflow
SELECT definition FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND version = %(version)s AND hash = %(hash)s
