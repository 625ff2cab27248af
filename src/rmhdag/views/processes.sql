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
    COALESCE(dead_letters, 0) AS dead_letters, NULL AS attention
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

-- name: orchestrators
SELECT
    o.owner_id, o.host, o.process_id, o.version, o.stopping, o.started_at, o.heartbeat_at, o.stats,
    EXTRACT(EPOCH FROM clock_timestamp() - o.heartbeat_at)::float8 AS silent_seconds,
    EXTRACT(EPOCH FROM clock_timestamp() - o.heartbeat_at) < %(alive_seconds)s AS alive,
    (
        SELECT count(*) FROM dag_jobs AS j
        WHERE j.owner_id = o.owner_id AND j.completed_at IS NULL
            AND j.namespace = COALESCE(%(namespace)s::text, j.namespace)
    ) AS jobs_owned
FROM dag_orchestrators AS o
ORDER BY o.started_at

-- name: workers
SELECT
    w.worker_id, w.host, w.process_id, w.version, w.slots, w.draining, w.started_at, w.heartbeat_at, w.queues,
    -- What a worker that serves everybody has and had to do is not for one of them.
    CASE WHEN %(namespace)s::text IS NULL OR w.serves_namespace IS NOT NULL THEN w.stats
        ELSE COALESCE((
            SELECT jsonb_object_agg(f.key, f.value) FROM jsonb_each(w.stats) AS f WHERE f.key = ANY(%(harmless)s)
        ), '{}')
    END AS stats,
    EXTRACT(EPOCH FROM clock_timestamp() - w.heartbeat_at)::float8 AS silent_seconds,
    EXTRACT(EPOCH FROM clock_timestamp() - w.heartbeat_at) < %(alive_seconds)s AS alive,
    (
        SELECT count(*) FROM dag_queue_messages AS q
        WHERE q.worker_id = w.worker_id AND q.namespace = COALESCE(%(namespace)s::text, q.namespace)
    ) AS tasks_held
FROM dag_workers AS w
WHERE %(namespace)s::text IS NULL OR w.serves_namespace IS NULL OR w.serves_namespace = %(namespace)s::text
ORDER BY w.started_at

-- name: handlers
SELECT DISTINCT ON (handler)
    handler, queue, version, description, aliases, params_schema, output_schema, true AS offered
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
