-- name: open_job_counts
SELECT status, count(*) FROM dag_jobs WHERE namespace = %(namespace)s AND completed_at IS NULL GROUP BY status

-- name: find_jobs
-- By the beginning of their id, which is hexadecimal: a range of the key.
SELECT job_id
FROM dag_jobs
WHERE job_id >= %(start)s AND job_id < %(start)s || 'g' AND namespace = %(namespace)s
ORDER BY job_id
LIMIT 3

-- name: job
SELECT
    j.job_id, j.namespace, j.workflow_id, j.workflow_version, j.workflow_hash, j.status, j.ending, j.priority,
    j.fairness_key, j.submitted_by, j.correlation_id, j.idempotency_key,
    -- Receivers keep keys in the query.
    substring(j.callback_url FROM '^[^?#]+') AS callback_url, j.request_id,
    j.parent_job_id, j.parent_node_id, j.rerun_of, j.root_job_id, j.created_at, j.started_at, j.completed_at,
    j.error_message, j.error, COALESCE(j.warnings, '[]') AS warnings, j.input_params, j.result_data, j.metadata, j.owner_id, j.owner_epoch, j.asset_id, j.revision,
    j.updated_at, j.version,
    o.heartbeat_at AS owner_heartbeat_at,
    EXTRACT(EPOCH FROM COALESCE(j.completed_at, clock_timestamp()) - j.started_at)::float8 AS duration_seconds,
    clock_timestamp() AS seen_at
FROM dag_jobs AS j
LEFT JOIN dag_orchestrators AS o ON o.owner_id = j.owner_id
WHERE j.job_id = %(job_id)s AND j.namespace = %(namespace)s

-- name: job_head
SELECT job_id, namespace, workflow_id, workflow_version, workflow_hash, status, clock_timestamp() AS seen_at
FROM dag_jobs
WHERE job_id = %(job_id)s AND namespace = %(namespace)s

-- name: reruns_of
SELECT job_id, status FROM dag_jobs WHERE rerun_of = %(job_id)s AND root_job_id = %(root_job_id)s ORDER BY job_id

-- name: nodes
-- Those of the definition; children of fan-outs are counted. A fan-out's own output says how many there will be.
SELECT
    node_id, status, attempt, retry_count, max_retries, lease_losses, task_id, reused_task_id, next_attempt_at,
    deadline_at, created_at, ready_at, dispatched_at, started_at, completed_at, checkpoint_phase, error_message,
    error, CASE WHEN output ? 'dynamic_nodes' THEN (output->>'total')::int END AS total,
    EXTRACT(EPOCH FROM
        COALESCE(completed_at, clock_timestamp()) - COALESCE(started_at, dispatched_at, ready_at))::float8
    AS duration_seconds
FROM dag_node_states
WHERE job_id = %(job_id)s AND node_id = ANY(%(nodes)s)
ORDER BY node_id

-- name: child_counts
SELECT parent_node_id, status, count(*)
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id IS NOT NULL
GROUP BY parent_node_id, status

-- name: failed_children
SELECT node_id, fan_out_item_key, error_message
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id = %(fan_out_id)s AND status = 'failed'
ORDER BY fan_out_index
LIMIT %(limit)s

-- name: child_jobs
-- The newest of each node: a retry begins another one.
SELECT DISTINCT ON (parent_node_id) parent_node_id, job_id, COALESCE(warnings, '[]') AS warnings
FROM dag_jobs
WHERE parent_job_id = %(job_id)s AND parent_node_id = ANY(%(nodes)s)
ORDER BY parent_node_id, created_at DESC, job_id

-- name: task_warnings
SELECT task_id, warnings FROM dag_task_results
WHERE task_id = ANY(%(tasks)s) AND status IN ('completed', 'failed', 'cancelled') AND warnings IS NOT NULL

-- name: child_warnings
SELECT r.warnings
FROM dag_node_states AS n
JOIN dag_task_results AS r ON r.task_id = COALESCE(n.reused_task_id, n.task_id) AND r.status = 'completed'
WHERE n.job_id = %(job_id)s AND n.parent_node_id = %(node_id)s AND n.status = 'completed' AND r.warnings IS NOT NULL
ORDER BY n.fan_out_index

-- name: node
SELECT
    n.node_id, n.status, n.attempt, n.retry_count, n.max_retries, n.lease_losses, n.task_id, n.reused_task_id,
    n.parent_node_id, n.fan_out_index, n.fan_out_item_key, n.next_attempt_at, n.deadline_at, n.created_at, n.ready_at,
    n.dispatched_at, n.started_at, n.completed_at, n.checkpoint_phase, n.checkpoint_saved_at, n.error_message,
    n.error, COALESCE(r.warnings, '[]') AS warnings, n.input_params, COALESCE(n.output, r.output) AS output, r.worker_id, r.metrics, r.error_kind,
    r.execution_duration_ms
FROM dag_node_states AS n
LEFT JOIN dag_task_results AS r
    ON r.task_id = COALESCE(n.reused_task_id, n.task_id) AND r.status IN ('completed', 'failed', 'cancelled')
WHERE n.job_id = %(job_id)s AND n.node_id = %(node_id)s

-- name: progress
-- What running tasks say of themselves.
SELECT r.node_id, r.progress_current, r.progress_total, r.progress_percent, r.progress_message
FROM dag_task_results AS r
WHERE r.task_id = ANY(%(tasks)s) AND r.status = 'running'

-- name: node_progress
SELECT
    n.node_id, n.status, n.attempt, n.retry_count, n.max_retries, n.task_id, n.checkpoint_phase, n.checkpoint_saved_at,
    n.parent_node_id, CASE WHEN n.output ? 'dynamic_nodes' THEN (n.output->>'total')::int END AS total,
    r.progress_current, r.progress_total, r.progress_percent, r.progress_message, r.worker_id, r.started_at
FROM dag_node_states AS n
LEFT JOIN LATERAL (
    SELECT * FROM dag_task_results AS t WHERE t.task_id = n.task_id ORDER BY t.lease_epoch DESC LIMIT 1
) AS r ON true
WHERE n.job_id = %(job_id)s AND n.node_id = %(node_id)s

-- name: current_tasks
-- Those that a worker holds, children too: never more than the window of a job lets out.
SELECT
    q.node_id, q.task_id, r.progress_current, r.progress_total, r.progress_percent, r.progress_message
FROM dag_queue_messages AS q
LEFT JOIN dag_task_results AS r ON r.task_id = q.task_id AND r.lease_epoch = q.lease_epoch
WHERE q.job_id = %(job_id)s AND q.worker_id IS NOT NULL AND q.worker_id NOT LIKE 'lost:%%'
ORDER BY q.started_at NULLS LAST, q.claimed_at, q.task_id
LIMIT %(limit)s

-- name: attempts
-- Nodes that were ever sent to a worker; a task's id follows from job, node and attempt.
SELECT node_id, attempt, reused_task_id
FROM dag_node_states
WHERE job_id = %(job_id)s AND (task_id IS NOT NULL OR reused_task_id IS NOT NULL)
    AND (node_id = %(node_id)s OR parent_node_id = %(node_id)s)
ORDER BY COALESCE(dispatched_at, ready_at, created_at), fan_out_index, node_id

-- name: logs
SELECT node_id, task_id, lease_epoch, chunk_index, created_at, truncated, content
FROM dag_task_logs
WHERE task_id = ANY(%(tasks)s)
ORDER BY created_at, task_id, lease_epoch, chunk_index

-- name: logs_of_job
-- A task's id begins with its job's, so this is one range of the key.
SELECT node_id, task_id, lease_epoch, chunk_index, created_at, truncated, content
FROM dag_task_logs
WHERE task_id >= %(job_id)s || '-' AND task_id < %(job_id)s || '.'
    AND (%(since)s::timestamptz IS NULL
        OR (created_at, task_id, lease_epoch, chunk_index)
        > (%(since)s, %(task_id)s::text, %(lease_epoch)s, %(chunk_index)s))
ORDER BY created_at, task_id, lease_epoch, chunk_index
LIMIT %(limit)s

-- name: timeline
SELECT seq, created_at, event_type, event_status, node_id, task_id, duration_ms, source_app, error_message, event_data
FROM dag_job_events
WHERE job_id = %(job_id)s AND seq > %(after)s
    AND (%(node_id)s::text IS NULL OR node_id = %(node_id)s)
    AND (%(event_types)s::event_type[] IS NULL OR event_type = ANY(%(event_types)s::event_type[]))
ORDER BY seq
LIMIT %(limit)s

-- name: timeline_summary
-- From `after` on, so that whoever remembers the summary until there reads only what has come since.
SELECT
    event_type, count(*), min(created_at), max(created_at), max(seq),
    array_agg(DISTINCT node_id) FILTER (WHERE event_type = 'node_retrying' AND NOT event_data ? 'snoozed')
FROM dag_job_events
WHERE job_id = %(job_id)s AND seq > %(after)s AND (%(node_id)s::text IS NULL OR node_id = %(node_id)s)
GROUP BY event_type

-- name: queues
-- Whatever has rows or workers; `workers` are those whose heartbeat is younger than the limit.
WITH rows AS (
    SELECT
        queue,
        count(*) FILTER (WHERE worker_id IS NULL AND available_at IS NULL) AS waiting,
        count(*) FILTER (WHERE worker_id IS NULL AND available_at IS NOT NULL) AS delayed,
        count(*) FILTER (WHERE worker_id IS NOT NULL) AS running,
        EXTRACT(EPOCH FROM clock_timestamp() - min(created_at) FILTER (
            WHERE worker_id IS NULL AND available_at IS NULL))::float8 AS oldest_seconds
    FROM dag_queue_messages
    WHERE namespace = %(namespace)s
    GROUP BY queue
),
served AS (
    SELECT q.queue, count(*) AS workers, sum(w.slots) AS slots
    FROM dag_workers AS w, LATERAL jsonb_array_elements_text(w.queues) AS q (queue)
    WHERE w.heartbeat_at > clock_timestamp() - %(alive_seconds)s * interval '1 second' AND NOT w.draining
        AND COALESCE(w.serves_namespace, %(namespace)s) = %(namespace)s
    GROUP BY q.queue
),
letters AS (
    SELECT queue, count(*) AS dead_letters
    FROM dag_dead_letters
    WHERE namespace = %(namespace)s AND settled_at IS NULL AND queue IS NOT NULL
    GROUP BY queue
)
SELECT
    queue, COALESCE(waiting, 0) AS waiting, COALESCE(delayed, 0) AS delayed, COALESCE(running, 0) AS running,
    oldest_seconds, COALESCE(workers, 0) AS workers, COALESCE(slots, 0) AS slots,
    COALESCE(dead_letters, 0) AS dead_letters
FROM rows
FULL JOIN served USING (queue)
FULL JOIN letters USING (queue)
ORDER BY queue

-- name: unserved_tasks
-- Waiting tasks that no live worker of their queue can run. A worker that did not say what it has counts for all.
SELECT q.queue, q.handler, q.waiting, q.oldest_seconds
FROM (
    SELECT
        queue, handler, count(*) AS waiting,
        EXTRACT(EPOCH FROM clock_timestamp() - min(created_at))::float8 AS oldest_seconds
    FROM dag_queue_messages
    WHERE namespace = %(namespace)s AND worker_id IS NULL AND available_at IS NULL
    GROUP BY queue, handler
) AS q
WHERE NOT EXISTS (
    SELECT FROM dag_workers AS w
    WHERE w.heartbeat_at > clock_timestamp() - %(alive_seconds)s * interval '1 second' AND NOT w.draining
        AND COALESCE(w.serves_namespace, %(namespace)s) = %(namespace)s AND jsonb_exists(w.queues, q.queue)
        AND (w.handlers IS NULL OR jsonb_exists(w.handlers, q.handler))
)
ORDER BY q.queue, q.waiting DESC, q.handler
LIMIT %(limit)s

-- name: workers_for
-- For each queue and handler how many live workers serve the queue, and how many of those can run it.
SELECT
    r->>0 AS queue, r->>1 AS handler, count(w.worker_id) AS workers,
    count(w.worker_id) FILTER (WHERE w.handlers IS NULL OR jsonb_exists(w.handlers, r->>1)) AS able
FROM jsonb_array_elements(%(pairs)s::jsonb) AS r
LEFT JOIN dag_workers AS w
    ON w.heartbeat_at > clock_timestamp() - %(alive_seconds)s * interval '1 second' AND NOT w.draining
    AND COALESCE(w.serves_namespace, %(namespace)s) = %(namespace)s AND jsonb_exists(w.queues, r->>0)
GROUP BY 1, 2

-- name: orchestrators
SELECT
    o.owner_id, o.host, o.process_id, o.version, o.stopping, o.started_at, o.heartbeat_at, o.stats,
    EXTRACT(EPOCH FROM clock_timestamp() - o.heartbeat_at)::float8 AS silent_seconds,
    (
        SELECT count(*) FROM dag_jobs AS j
        WHERE j.owner_id = o.owner_id AND j.completed_at IS NULL
            AND j.namespace = COALESCE(%(namespace)s::text, j.namespace)
    ) AS jobs_owned
FROM dag_orchestrators AS o
ORDER BY o.started_at

-- name: workers
SELECT
    w.worker_id, w.host, w.process_id, w.version, w.slots, w.draining, w.started_at, w.heartbeat_at, w.queues, w.stats,
    EXTRACT(EPOCH FROM clock_timestamp() - w.heartbeat_at)::float8 AS silent_seconds,
    (
        SELECT count(*) FROM dag_queue_messages AS q
        WHERE q.worker_id = w.worker_id AND q.namespace = COALESCE(%(namespace)s::text, q.namespace)
    ) AS tasks_held
FROM dag_workers AS w
WHERE %(namespace)s::text IS NULL OR w.serves_namespace IS NULL OR w.serves_namespace = %(namespace)s::text
ORDER BY w.started_at

-- name: handlers
-- What all namespaces have comes first; then the namespace's own, of which older versions kept some in the same table.
SELECT DISTINCT ON (handler) handler, aliases, queue, params_schema, output_schema, place = 0 AS is_shared
FROM (
    SELECT
        handler, aliases, queue, params_schema, output_schema,
        CASE WHEN serves_namespace IS NULL THEN 0 ELSE 2 END AS place
    FROM dag_handlers
    WHERE serves_namespace IS NULL OR serves_namespace = %(namespace)s::text
    UNION ALL
    SELECT handler, aliases, queue, params_schema, output_schema, 1 FROM dag_namespace_handlers
    WHERE namespace = %(namespace)s::text
) AS h
ORDER BY handler, place

-- name: handler_lines
SELECT DISTINCT ON (handler)
    handler, queue, version, description, aliases, params_schema, output_schema, registered_at
FROM (
    SELECT *, CASE WHEN serves_namespace IS NULL THEN 0 ELSE 2 END AS place
    FROM dag_handlers
    WHERE serves_namespace IS NULL OR serves_namespace = %(namespace)s
    UNION ALL
    SELECT
        handler, queue, namespace, version, description, aliases, params_schema, output_schema, registered_at, updated_at, 1
    FROM dag_namespace_handlers
    WHERE namespace = %(namespace)s
) AS h
ORDER BY handler, place

-- name: workflows
SELECT w.workflow_id, w.version, w.hash, w.registered_by, w.registered_at, w.retired_at, w.retired_by,
    w.definition->>'name' AS name, w.definition->>'description' AS description
FROM (
    SELECT DISTINCT ON (workflow_id) *
    FROM dag_workflows
    WHERE namespace = %(namespace)s AND superseded_at IS NULL
        AND (%(after)s::text IS NULL OR workflow_id > %(after)s)
    ORDER BY workflow_id, version DESC
) AS w
WHERE (w.retired_at IS NULL OR %(retired_too)s)
    AND (
        %(text)s::text IS NULL
        OR strpos(lower(w.workflow_id || ' ' || (w.definition->>'name')), lower(%(text)s::text)) > 0
    )
ORDER BY w.workflow_id
LIMIT %(limit)s

-- name: workflow_versions
SELECT workflow_id, version, hash, registered_by, registered_at, retired_at, retired_by, definition->>'name' AS name,
    definition->>'description' AS description
FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL
    AND (%(before)s::int IS NULL OR version < %(before)s)
ORDER BY version DESC
LIMIT %(limit)s

-- name: workflow
SELECT workflow_id, version, hash, registered_by, registered_at, retired_at, retired_by, definition->>'name' AS name,
    definition->>'description' AS description, definition, layout
FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL
    AND (%(version)s::int IS NULL OR version = %(version)s)
ORDER BY version DESC
LIMIT 1
