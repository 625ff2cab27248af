-- name: register_worker
INSERT INTO dag_workers (
    worker_id, host, process_id, version, slots, queues, handlers, registered_by, serves_namespace
)
VALUES (
    %(worker_id)s, %(host)s, %(process_id)s, %(version)s, %(slots)s, %(queues)s::jsonb, %(handlers)s::jsonb,
    %(registered_by)s, %(namespace)s
)
ON CONFLICT (worker_id) DO NOTHING

-- name: registration
SELECT registered_by, slots, queues, handlers FROM dag_workers WHERE worker_id = %(worker_id)s

-- name: register_handlers
-- Workers start often and change little: a row that would stay the same is not written.
INSERT INTO dag_handlers AS h (
    handler, queue, version, description, aliases, params_schema, output_schema
)
SELECT
    r->>'handler', r->>'queue', r->>'version', r->>'description', r->'aliases', r->'params_schema',
    COALESCE(r->'output_schema', '{}'::jsonb)
FROM jsonb_array_elements(%(handlers)s::jsonb) AS r
ORDER BY r->>'handler'
ON CONFLICT (handler) DO UPDATE SET
    queue = EXCLUDED.queue, serves_namespace = NULL, version = EXCLUDED.version, description = EXCLUDED.description,
    aliases = EXCLUDED.aliases, params_schema = EXCLUDED.params_schema, output_schema = EXCLUDED.output_schema,
    updated_at = clock_timestamp()
WHERE h.serves_namespace IS NOT NULL
    OR (h.queue, h.version, h.description, h.aliases, h.params_schema, h.output_schema) IS DISTINCT FROM (
        EXCLUDED.queue, EXCLUDED.version, EXCLUDED.description, EXCLUDED.aliases, EXCLUDED.params_schema,
        EXCLUDED.output_schema
    )

-- name: register_namespace_handlers
INSERT INTO dag_namespace_handlers AS h (
    namespace, handler, queue, version, description, aliases, params_schema, output_schema
)
SELECT
    %(namespace)s, r->>'handler', r->>'queue', r->>'version', r->>'description', r->'aliases', r->'params_schema',
    COALESCE(r->'output_schema', '{}'::jsonb)
FROM jsonb_array_elements(%(handlers)s::jsonb) AS r
ORDER BY r->>'handler'
ON CONFLICT (namespace, handler) DO UPDATE SET
    queue = EXCLUDED.queue, version = EXCLUDED.version, description = EXCLUDED.description, aliases = EXCLUDED.aliases,
    params_schema = EXCLUDED.params_schema, output_schema = EXCLUDED.output_schema, updated_at = clock_timestamp()
WHERE (h.queue, h.version, h.description, h.aliases, h.params_schema, h.output_schema) IS DISTINCT FROM (
        EXCLUDED.queue, EXCLUDED.version, EXCLUDED.description, EXCLUDED.aliases, EXCLUDED.params_schema,
        EXCLUDED.output_schema
    )

-- name: beat
UPDATE dag_workers
SET heartbeat_at = clock_timestamp(), draining = %(draining)s OR drain_requested_at IS NOT NULL, stats = %(stats)s::jsonb
WHERE worker_id = %(worker_id)s
RETURNING drain_requested_at IS NOT NULL

-- name: held_tasks
SELECT task_id, lease_epoch, cancel_requested FROM dag_queue_messages WHERE worker_id = %(worker_id)s

-- name: save_progress
-- row: TaskProgress
WITH given AS MATERIALIZED (
    SELECT r FROM jsonb_array_elements(%(progress)s::jsonb) AS r
)
INSERT INTO dag_task_results (
    task_id, lease_epoch, job_id, node_id, namespace, attempt, status, worker_id, started_at, progress_current,
    progress_total, progress_percent, progress_message
)
SELECT
    q.task_id, q.lease_epoch, q.job_id, q.node_id, q.namespace, q.attempt, 'running', q.worker_id, q.started_at,
    (r->>{current})::bigint, (r->>{total})::bigint, (r->>{percent})::float8, r->>{message}
FROM given
JOIN dag_queue_messages AS q
    ON q.task_id = r->>{task_id} AND q.lease_epoch = (r->>{lease_epoch})::bigint AND q.worker_id = %(worker_id)s
WHERE q.task_id = ANY(ARRAY(SELECT r->>{task_id} FROM given))
-- A statement that deletes the row waits, and sees this report.
FOR KEY SHARE OF q
ON CONFLICT (task_id, lease_epoch) DO UPDATE SET
    progress_current = EXCLUDED.progress_current, progress_total = EXCLUDED.progress_total,
    progress_percent = EXCLUDED.progress_percent, progress_message = EXCLUDED.progress_message
WHERE dag_task_results.status = 'running'
RETURNING task_id

-- name: save_checkpoint
-- The queue row keeps it too: a task whose worker is lost goes back to the queue as it is, and resumes from there.
WITH held AS (
    UPDATE dag_queue_messages AS q
    SET checkpoint_phase = %(phase)s, checkpoint_data = NULLIF(%(data)s::jsonb, 'null')
    WHERE q.task_id = %(task_id)s AND q.lease_epoch = %(lease_epoch)s AND q.worker_id = %(worker_id)s
    RETURNING q.task_id, q.lease_epoch, q.job_id, q.node_id, q.namespace, q.attempt
),
kept AS (
    INSERT INTO dag_checkpoints (task_id, lease_epoch, job_id, node_id, namespace, phase, artifact_hash, data)
    SELECT
        task_id, lease_epoch, job_id, node_id, namespace, %(phase)s, %(artifact_hash)s, NULLIF(%(data)s::jsonb, 'null')
    FROM held
    RETURNING checkpoint_id
),
told AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
    SELECT
        COALESCE(j.owner_id, ''), h.job_id, 'task_checkpointed', h.node_id, h.task_id, h.lease_epoch,
        jsonb_build_object('attempt', h.attempt, 'phase', %(phase)s::text)
        || CASE WHEN %(is_small)s THEN jsonb_build_object('data', %(data)s::jsonb)
            ELSE jsonb_build_object('checkpoint_id', k.checkpoint_id) END
    FROM held AS h
    CROSS JOIN kept AS k
    JOIN dag_jobs AS j ON j.job_id = h.job_id
    RETURNING owner_id
)
SELECT
    (SELECT checkpoint_id FROM kept),
    (
        SELECT count(pg_notify(CASE owner_id
            WHEN '' THEN 'rmhdag_jobs'
            ELSE 'rmhdag_o_' || left(encode(sha256(convert_to(owner_id, 'UTF8')), 'hex'), 24) END, '')::text)
        FROM told
    )

-- name: read_checkpoint
SELECT data FROM dag_checkpoints WHERE checkpoint_id = %(checkpoint_id)s

-- name: insert_logs
-- row: LogChunk
INSERT INTO dag_task_logs (task_id, lease_epoch, chunk_index, job_id, node_id, namespace, line_count, truncated, content)
SELECT
    r->>{task_id}, (r->>{lease_epoch})::bigint, (r->>{chunk_index})::int, r->>{job_id}, r->>{node_id}, r->>{namespace},
    (r->>{line_count})::int, (r->>{truncated})::boolean, r->>{content}
FROM jsonb_array_elements(%(chunks)s::jsonb) AS r

-- name: insert_logs_if_held
-- For workers that are not trusted with more than their own tasks. A chunk that is sent again is there already.
-- row: HeldLogChunk
WITH given AS MATERIALIZED (
    SELECT r, r->>{task_id} AS task_id, (r->>{lease_epoch})::bigint AS lease_epoch
    FROM jsonb_array_elements(%(chunks)s::jsonb) AS r
),
held AS MATERIALIZED (
    SELECT q.task_id, q.lease_epoch, q.job_id, q.node_id, q.namespace, (
        SELECT COALESCE(sum(octet_length(l.content)), 0)
        FROM dag_task_logs AS l
        WHERE l.task_id = q.task_id AND l.lease_epoch = q.lease_epoch
    ) AS written
    FROM dag_queue_messages AS q
    WHERE q.worker_id = %(worker_id)s AND q.task_id = ANY(ARRAY(SELECT task_id FROM given))
),
fitting AS MATERIALIZED (
    SELECT
        h.*, g.r,
        h.written + sum(octet_length(g.r->>{content})) OVER (
            PARTITION BY h.task_id ORDER BY (g.r->>{position})::int) AS size
    FROM given AS g
    JOIN held AS h ON h.task_id = g.task_id AND h.lease_epoch = g.lease_epoch
),
kept AS (
    INSERT INTO dag_task_logs (task_id, lease_epoch, chunk_index, job_id, node_id, namespace, line_count, truncated, content)
    SELECT
        task_id, lease_epoch, (r->>{chunk_index})::int, job_id, node_id, namespace, (r->>{line_count})::int,
        (r->>{truncated})::boolean, r->>{content}
    FROM fitting AS f
    WHERE size <= %(most_bytes)s
        AND NOT EXISTS (
            SELECT FROM dag_task_logs AS l
            WHERE l.task_id = f.task_id AND l.lease_epoch = f.lease_epoch AND l.chunk_index = (f.r->>{chunk_index})::int
        )
    ON CONFLICT DO NOTHING
)
SELECT (r->>{position})::int, size <= %(most_bytes)s FROM fitting
