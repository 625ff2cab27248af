-- part: room
WITH watched AS MATERIALIZED (
    SELECT namespace, running_tasks, running_share
    FROM dag_namespaces
    WHERE is_watched AND %(namespace)s::text IS NULL
),
held AS MATERIALIZED (
    SELECT w.worker_id, h.namespace, count(*) AS tasks, count(h.started_at) AS started,
        CASE WHEN jsonb_exists(w.queues, %(queue)s) THEN LEAST(w.slots, count(*)) ELSE 0 END AS slots
    FROM dag_workers AS w,
        LATERAL (
            SELECT t.namespace, t.started_at FROM dag_queue_messages AS t WHERE t.worker_id = w.worker_id OFFSET 0
        ) AS h
    WHERE w.serves_namespace IS NULL AND EXISTS (SELECT FROM watched)
    GROUP BY w.worker_id, h.namespace
),
workers AS MATERIALIZED (
    SELECT COALESCE(sum(w.slots), 0) AS slots,
        COALESCE(sum(w.slots) FILTER (WHERE w.worker_id = %(worker_id)s), 0) AS own,
        (SELECT COALESCE(sum(h.started), 0) FROM held AS h WHERE h.worker_id = %(worker_id)s) AS started,
        (SELECT COALESCE(sum(h.tasks - h.started), 0) FROM held AS h WHERE h.worker_id = %(worker_id)s) AS in_store
    FROM dag_workers AS w
    WHERE w.serves_namespace IS NULL AND jsonb_exists(w.queues, %(queue)s) AND EXISTS (SELECT FROM watched)
),
-- `lanes` are the slots of this worker that a namespace may use: its share of all, less what it has elsewhere.
shares AS MATERIALIZED (
    SELECT n.namespace, n.running_tasks - COALESCE(h.tasks, 0) AS tasks, COALESCE(h.mine, 0) AS mine,
        COALESCE(h.started, 0) AS started,
        CASE WHEN n.running_share < 100 THEN
            GREATEST(1, f.slots * n.running_share / 100) - COALESCE(h.slots, 0) END AS lanes
    FROM watched AS n
    LEFT JOIN (
        SELECT namespace, sum(tasks) AS tasks, sum(slots) FILTER (WHERE worker_id <> %(worker_id)s) AS slots,
            sum(tasks) FILTER (WHERE worker_id = %(worker_id)s) AS mine,
            sum(started) FILTER (WHERE worker_id = %(worker_id)s) AS started
        FROM held
        GROUP BY namespace
    ) AS h ON h.namespace = n.namespace
    CROSS JOIN workers AS f
),
room AS MATERIALIZED (
    SELECT n.namespace, CASE WHEN n.lanes < f.own THEN n.lanes END AS lanes,
        LEAST(n.tasks, CASE
            WHEN n.lanes <= 0 THEN 0
            WHEN n.lanes >= f.own THEN NULL
            WHEN f.own < f.slots THEN n.lanes - n.mine
            WHEN n.lanes <= n.started THEN 0
            ELSE ceil((f.in_store + %(limit)s::bigint) * (n.lanes - n.started) / GREATEST(1, f.own - f.started))
                - (n.mine - n.started)
        END) AS tasks
    FROM shares AS n
    CROSS JOIN workers AS f
),

-- part: picked_within_room
WHERE q.task_id = ANY(CASE
    WHEN EXISTS (SELECT FROM watched) THEN ARRAY(
        SELECT p.task_id
        FROM (
            SELECT task_id, namespace, row_number() OVER (PARTITION BY namespace ORDER BY order_key) AS place
            FROM picked
        ) AS p
        LEFT JOIN room AS r ON r.namespace = p.namespace
        WHERE r.tasks IS NULL OR p.place <= r.tasks
    )
    ELSE ARRAY(SELECT task_id FROM picked)
END)

-- name: claim_unwatched_tasks
-- While no namespace is near its quota of running tasks, nothing has to be counted, and this takes 60 us less than
-- `claim_tasks`, which is otherwise the same and explains the rest. If there is one by now, nothing is claimed.
WITH picked AS MATERIALIZED (
    SELECT task_id
    FROM dag_queue_messages
    WHERE queue = %(queue)s AND worker_id IS NULL AND available_at IS NULL AND order_key >= %(mark)s
        AND lease_losses < 2
        AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
        AND (%(handlers)s::jsonb IS NULL OR jsonb_exists(%(handlers)s::jsonb, handler))
        AND (%(namespace)s::text IS NOT NULL OR NOT EXISTS (SELECT FROM dag_namespaces WHERE is_watched))
    ORDER BY order_key
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE dag_queue_messages AS q
SET worker_id = %(worker_id)s, claimed_at = clock_timestamp(), lease_epoch = q.lease_epoch + 1
WHERE q.task_id = ANY(ARRAY(SELECT task_id FROM picked))
RETURNING
    q.task_id, q.job_id, q.node_id, q.queue, q.handler, q.params, q.timeout_seconds, q.attempt, q.lease_epoch,
    q.lease_losses, q.priority, q.checkpoint_phase, q.checkpoint_data, q.trace_parent, q.order_key, q.namespace

-- name: claim_tasks
-- SKIP LOCKED lets many workers claim at once; the mark spares the scan the dead rows of tasks already claimed.
-- Suspects, which are few, are passed over: they are claimed one by one (suspects.sql). So are tasks whose handler the
-- worker does not have: `handlers` is an object whose keys are their names, which is searched faster than an array.
-- Namespaces near their quota of running tasks are watched, and get no more than they have room for: `room`. As long as
-- there are none, which one look at an empty index tells, nothing of that is executed; while there are some, workers
-- claim one by one. A worker of a namespace's own runs what it can. Full ones are
-- looked up in an object, because of an array the planner would expect that it leaves no row.
-- What counts of a share are slots: a worker that holds ten short tasks uses no more than it has. A worker of which a
-- namespace may use only some slots is told how many (`lanes`), and keeps to them. It gets no more tasks than these, and
-- none in store, for others count them; unless it is the only worker: then the namespace has its part of the store. A
-- task whose start was marked has its slot to itself.
-- The last columns are these lanes, and how many tasks were picked: more than are returned if a namespace had no more room.
-- include: room
picked AS MATERIALIZED (
    SELECT task_id, namespace, order_key
    FROM dag_queue_messages
    WHERE queue = %(queue)s AND worker_id IS NULL AND available_at IS NULL AND order_key >= %(mark)s
        AND lease_losses < 2
        AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
        AND (%(handlers)s::jsonb IS NULL OR jsonb_exists(%(handlers)s::jsonb, handler))
        AND jsonb_exists((SELECT jsonb_object_agg(r.namespace, 0) FROM room AS r WHERE r.tasks <= 0), namespace)
            IS NOT TRUE
    ORDER BY order_key
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE dag_queue_messages AS q
SET worker_id = %(worker_id)s, claimed_at = clock_timestamp(), lease_epoch = q.lease_epoch + 1
-- include: picked_within_room
RETURNING
    q.task_id, q.job_id, q.node_id, q.queue, q.handler, q.params, q.timeout_seconds, q.attempt, q.lease_epoch,
    q.lease_losses, q.priority, q.checkpoint_phase, q.checkpoint_data, q.trace_parent, q.order_key, q.namespace,
    (SELECT jsonb_object_agg(r.namespace, r.lanes) FROM room AS r WHERE r.lanes IS NOT NULL),
    (SELECT count(*) FROM picked)

-- name: claim_tasks_by_handler
-- The same, in the same order, for a queue in which tasks of other handlers wait: there may be any number of them in
-- front. The first tasks of each handler are looked at; a few more than wanted, because others claim at the same time.
-- An equal handler is written as a range: then only the index over handlers has the order that is asked for, and the
-- planner cannot choose the one over the whole queue instead, whatever it knows about the table.
-- include: room
nearest AS MATERIALIZED (
    SELECT c.task_id, c.order_key
    FROM jsonb_object_keys(%(handlers)s::jsonb) AS h (handler),
        LATERAL (
            SELECT q.task_id, q.order_key
            FROM dag_queue_messages AS q
            WHERE q.queue = %(queue)s AND (q.handler, q.order_key) >= (h.handler, %(mark)s) AND q.handler <= h.handler
                AND q.worker_id IS NULL AND q.available_at IS NULL AND q.lease_losses < 2
                AND (%(namespace)s::text IS NULL OR q.namespace = %(namespace)s::text)
                AND jsonb_exists((SELECT jsonb_object_agg(r.namespace, 0) FROM room AS r WHERE r.tasks <= 0), q.namespace)
                    IS NOT TRUE
            ORDER BY q.handler, q.order_key
            LIMIT %(limit)s::bigint * 2 + 50
        ) AS c
    ORDER BY c.order_key
    LIMIT %(limit)s::bigint * 2 + 50
),
picked AS MATERIALIZED (
    SELECT task_id, namespace, order_key
    FROM dag_queue_messages
    -- Still unclaimed; not in the words of the partial indexes, so that each row is looked up by its key.
    WHERE task_id = ANY(ARRAY(SELECT task_id FROM nearest)) AND num_nonnulls(worker_id, available_at) = 0
    ORDER BY order_key
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE dag_queue_messages AS q
SET worker_id = %(worker_id)s, claimed_at = clock_timestamp(), lease_epoch = q.lease_epoch + 1
-- include: picked_within_room
RETURNING
    q.task_id, q.job_id, q.node_id, q.queue, q.handler, q.params, q.timeout_seconds, q.attempt, q.lease_epoch,
    q.lease_losses, q.priority, q.checkpoint_phase, q.checkpoint_data, q.trace_parent, q.order_key, q.namespace,
    (SELECT jsonb_object_agg(r.namespace, r.lanes) FROM room AS r WHERE r.lanes IS NOT NULL),
    (SELECT count(*) FROM picked)

-- name: has_watched_namespaces
SELECT EXISTS (SELECT FROM dag_namespaces WHERE is_watched)

-- name: lock_claims
SELECT pg_advisory_xact_lock(hashtextextended('rmhdag claims ' || current_schema(), 0))

-- name: full_namespaces
-- Those that have no room for one more task of the queue.
-- include: room
full_ones AS (SELECT namespace FROM room WHERE tasks <= 0)
SELECT namespace FROM full_ones

-- name: other_handler_waits
-- Whether a task waits in the queue whose handler is none of these: from one name to the next, however many tasks wait.
WITH RECURSIVE waiting (handler) AS (
    (
        SELECT handler FROM dag_queue_messages
        WHERE queue = %(queue)s AND worker_id IS NULL AND available_at IS NULL
        ORDER BY handler
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT q.handler FROM dag_queue_messages AS q
        WHERE q.queue = %(queue)s AND q.worker_id IS NULL AND q.available_at IS NULL AND q.handler > w.handler
        ORDER BY q.handler
        LIMIT 1
    )
    FROM waiting AS w
    WHERE w.handler IS NOT NULL
)
SELECT EXISTS (SELECT FROM waiting WHERE NOT jsonb_exists(%(handlers)s::jsonb, handler))

-- name: report_tasks
-- One statement: the row goes if the lease still matches, and the result is made from what went. A lost or repeated
-- lease finds no row and changes nothing.
-- Each row is looked up by its key, whatever the planner knows (see settle.sql): all that this worker ever held stands
-- under one key of its index until it is vacuumed, and 200 reports took 10 ms longer after 20,000 tasks.
-- row: TaskReportRow
WITH given AS MATERIALIZED (
    SELECT r, r->>{task_id} AS task_id, (r->>{lease_epoch})::bigint AS lease_epoch
    FROM jsonb_array_elements(%(reports)s::jsonb) AS r
    WHERE jsonb_typeof(r) = 'array'
),
gone AS (
    DELETE FROM dag_queue_messages AS q
    USING given AS g
    WHERE q.task_id = g.task_id AND q.lease_epoch = g.lease_epoch
        AND q.worker_id IS NOT DISTINCT FROM %(worker_id)s
    RETURNING q.task_id, q.lease_epoch, q.job_id, q.node_id, q.namespace, q.attempt, q.queue, q.order_key, g.r
),
recorded AS (
    INSERT INTO dag_task_results (
        task_id, lease_epoch, job_id, node_id, namespace, attempt, status, worker_id, error_kind, error_message,
        execution_duration_ms, output, records, error, warnings, metrics, started_at, reported_at
    )
    SELECT
        task_id, lease_epoch, job_id, node_id, namespace, attempt, (r->>{status})::task_status, %(worker_id)s,
        (r->>{error_kind})::error_kind, r->>{error_message}, (r->>{duration_ms})::bigint, NULLIF(r->{output}, 'null'),
        NULLIF(r->{records}, 'null'), NULLIF(r->{error}, 'null'),
        NULLIF(r->{warnings}, 'null'), COALESCE(NULLIF(r->{metrics}, 'null'), '{}'),
        clock_timestamp() - (r->>{started_ms_ago})::float8 * interval '1 millisecond', clock_timestamp()
    FROM gone
    -- A task that told its progress has a row already. A result that was accepted before stays as it is: the job may
    -- have used it, whatever a second run under the same lease says.
    ON CONFLICT (task_id, lease_epoch) DO UPDATE SET
        status = EXCLUDED.status, error_kind = EXCLUDED.error_kind, error_message = EXCLUDED.error_message,
        execution_duration_ms = EXCLUDED.execution_duration_ms, output = EXCLUDED.output, records = EXCLUDED.records,
        error = EXCLUDED.error, warnings = EXCLUDED.warnings, metrics = EXCLUDED.metrics,
        started_at = EXCLUDED.started_at, reported_at = EXCLUDED.reported_at
    WHERE dag_task_results.status IN ('running', 'received')
),
told AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
    SELECT
        COALESCE(j.owner_id, ''), g.job_id,
        CASE WHEN g.r->>{status} = 'cancelled' THEN 'task_withdrawn' ELSE 'task_reported' END::inbox_kind,
        g.node_id, g.task_id, g.lease_epoch,
        g.r->{payload} || jsonb_build_object(
            'attempt', g.attempt, 'worker_id', %(worker_id)s::text, 'queue', g.queue, 'order_key', g.order_key)
    FROM gone AS g
    JOIN dag_jobs AS j ON j.job_id = g.job_id
    ORDER BY g.r->{position}
    RETURNING owner_id
)
SELECT (SELECT array_agg(task_id) FROM gone), (
        SELECT count(pg_notify(CASE owner_id
        WHEN '' THEN 'rmhdag_jobs'
        ELSE 'rmhdag_o_' || left(encode(sha256(convert_to(owner_id, 'UTF8')), 'hex'), 24) END, '')::text)
        FROM (SELECT DISTINCT owner_id FROM told) AS owners
    )

-- name: read_records
SELECT records FROM dag_task_results WHERE task_id = %(task_id)s AND lease_epoch = %(lease_epoch)s

-- name: read_warnings
SELECT warnings FROM dag_task_results WHERE task_id = %(task_id)s AND lease_epoch = %(lease_epoch)s

-- name: start_tasks
-- Asked again, because the answer was lost, it answers the same and tells nobody twice.
-- row: LeaseKey
WITH given AS MATERIALIZED (
    SELECT r->>{task_id} AS task_id, (r->>{lease_epoch})::bigint AS lease_epoch
    FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
    WHERE jsonb_typeof(r) = 'array'
),
held AS (
    SELECT q.task_id, q.started_at
    FROM dag_queue_messages AS q
    JOIN given AS g ON q.task_id = g.task_id AND q.lease_epoch = g.lease_epoch
    WHERE q.worker_id IS NOT DISTINCT FROM %(worker_id)s
    FOR NO KEY UPDATE OF q
),
started AS (
    UPDATE dag_queue_messages AS q
    SET started_at = clock_timestamp()
    FROM held
    WHERE q.task_id = held.task_id AND held.started_at IS NULL
    RETURNING q.task_id, q.lease_epoch, q.job_id, q.node_id, q.attempt
),
told AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
    SELECT
        COALESCE(j.owner_id, ''), s.job_id, 'task_started', s.node_id, s.task_id, s.lease_epoch,
        jsonb_build_object('attempt', s.attempt, 'worker_id', %(worker_id)s::text)
    FROM started AS s
    JOIN dag_jobs AS j ON j.job_id = s.job_id
    RETURNING owner_id
)
SELECT (SELECT array_agg(task_id) FROM held), (
        SELECT count(pg_notify(CASE owner_id
        WHEN '' THEN 'rmhdag_jobs'
        ELSE 'rmhdag_o_' || left(encode(sha256(convert_to(owner_id, 'UTF8')), 'hex'), 24) END, '')::text)
        FROM (SELECT DISTINCT owner_id FROM told) AS owners
    )

-- name: release_tasks
-- Given back: no loss, no attempt. A task that was told to stop is withdrawn instead of offered again. A delay, even of
-- 0 seconds, or the mark of its start says that the task had started: its owner is told, so that its time in the queue
-- is no run time.
-- row: ReturnedLease
WITH given AS MATERIALIZED (
    SELECT r->>{task_id} AS task_id, (r->>{lease_epoch})::bigint AS lease_epoch, (r->>{delay_seconds})::float8 AS delay,
        COALESCE(r->>{reason}, CASE WHEN r->>{delay_seconds} IS NULL THEN 'given_back' END) AS reason
    FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
    WHERE jsonb_typeof(r) = 'array'
),
-- Locked first: told to stop at this very moment, the row would be neither withdrawn nor freed.
held AS MATERIALIZED (
    SELECT q.task_id, q.cancel_requested, COALESCE(g.delay, CASE WHEN q.started_at IS NOT NULL THEN 0 END) AS delay,
        g.reason
    FROM dag_queue_messages AS q
    JOIN given AS g ON q.task_id = g.task_id AND q.lease_epoch = g.lease_epoch
    WHERE q.worker_id IS NOT DISTINCT FROM %(worker_id)s
    FOR UPDATE OF q
),
withdrawn AS (
    DELETE FROM dag_queue_messages AS q
    USING held
    WHERE q.task_id = held.task_id AND held.cancel_requested
    RETURNING q.task_id, q.lease_epoch, q.job_id, q.node_id, q.attempt
),
told AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
    SELECT
        COALESCE(j.owner_id, ''), w.job_id, 'task_withdrawn', w.node_id, w.task_id, w.lease_epoch,
        jsonb_build_object('attempt', w.attempt)
    FROM withdrawn AS w
    JOIN dag_jobs AS j ON j.job_id = w.job_id
    RETURNING owner_id
),
freed AS (
    UPDATE dag_queue_messages AS q
    SET worker_id = NULL, claimed_at = NULL, started_at = NULL,
        available_at = CASE WHEN held.delay > 0 THEN clock_timestamp() + held.delay * interval '1 second' END
    FROM held
    WHERE q.task_id = held.task_id AND NOT held.cancel_requested
    RETURNING q.task_id, q.lease_epoch, q.job_id, q.node_id, q.attempt, q.queue, held.delay, held.reason
),
-- Leases that told their progress have a row.
ended AS (
    UPDATE dag_task_results AS r
    SET status = g.status, reported_at = clock_timestamp()
    FROM (
        SELECT task_id, lease_epoch, 'stale'::task_status AS status FROM freed
        UNION ALL SELECT task_id, lease_epoch, 'cancelled' FROM withdrawn
    ) AS g
    WHERE r.task_id = ANY(ARRAY(SELECT task_id FROM given)) AND r.task_id = g.task_id
        AND r.lease_epoch = g.lease_epoch AND r.status = 'running'
),
snoozed AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
    SELECT
        COALESCE(j.owner_id, ''), f.job_id, 'task_snoozed', f.node_id, f.task_id, f.lease_epoch,
        jsonb_build_object('attempt', f.attempt, 'delay_seconds', f.delay, 'reason', f.reason)
    FROM freed AS f
    JOIN dag_jobs AS j ON j.job_id = f.job_id
    WHERE f.delay IS NOT NULL
    RETURNING owner_id
),
offered AS (
    SELECT DISTINCT queue FROM freed WHERE COALESCE(delay, 0) <= 0
)
SELECT
    (SELECT array_agg(task_id) FROM withdrawn),
    (SELECT array_agg(task_id) FROM freed),
    (
        SELECT count(pg_notify(CASE owner_id
        WHEN '' THEN 'rmhdag_jobs'
        ELSE 'rmhdag_o_' || left(encode(sha256(convert_to(owner_id, 'UTF8')), 'hex'), 24) END, '')::text)
        FROM (SELECT DISTINCT owner_id FROM (SELECT owner_id FROM told UNION SELECT owner_id FROM snoozed) AS both_told) AS owners
    ),
    (
        SELECT count(pg_notify('rmhdag_q_' || left(encode(sha256(convert_to(queue, 'UTF8')), 'hex'), 24), '')::text)
        FROM offered
    )

-- name: offer_due_tasks
-- A delayed row gets a new place in the order when it is due, or claims would look past it for ever.
UPDATE dag_queue_messages AS q
SET available_at = NULL, order_key = GREATEST(q.order_key, COALESCE((
    SELECT min(w.order_key)
    FROM dag_queue_messages AS w
    WHERE w.queue = q.queue AND w.worker_id IS NULL AND w.available_at IS NULL
), 0))
WHERE q.available_at <= statement_timestamp()

-- name: report_lost_tasks
-- The leases of workers that are gone, each told once: the mark on the row makes a second look find nothing.
WITH lost AS (
    UPDATE dag_queue_messages AS q
    SET worker_id = 'lost:' || left(q.worker_id, 59)
    WHERE q.worker_id = ANY(%(workers)s)
    RETURNING q.task_id, q.lease_epoch, q.job_id, q.node_id, q.namespace, q.attempt, q.started_at, substr(q.worker_id, 6) AS worker_id
),
recorded AS (
    INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, namespace, attempt, status, worker_id, started_at)
    SELECT task_id, lease_epoch, job_id, node_id, namespace, attempt, 'lost', worker_id, started_at FROM lost
    ON CONFLICT (task_id, lease_epoch) DO UPDATE SET status = 'lost', reported_at = clock_timestamp()
    WHERE dag_task_results.status = 'running'
),
told AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, task_id, lease_epoch, payload)
    SELECT
        COALESCE(j.owner_id, ''), l.job_id, 'task_lost', l.node_id, l.task_id, l.lease_epoch,
        jsonb_build_object('attempt', l.attempt, 'worker_id', l.worker_id, 'started', l.started_at IS NOT NULL)
    FROM lost AS l
    JOIN dag_jobs AS j ON j.job_id = l.job_id
    RETURNING owner_id
)
SELECT (SELECT count(*) FROM lost), (
        SELECT count(pg_notify(CASE owner_id
        WHEN '' THEN 'rmhdag_jobs'
        ELSE 'rmhdag_o_' || left(encode(sha256(convert_to(owner_id, 'UTF8')), 'hex'), 24) END, '')::text)
        FROM (SELECT DISTINCT owner_id FROM told) AS owners
    )

-- name: current_leases
SELECT task_id, lease_epoch, started_at IS NOT NULL FROM dag_queue_messages WHERE task_id = ANY(%(tasks)s)

-- name: depth
SELECT
    queue,
    count(*) FILTER (WHERE worker_id IS NULL AND available_at IS NULL) AS waiting,
    count(*) FILTER (WHERE worker_id IS NULL AND available_at IS NOT NULL) AS delayed,
    count(*) FILTER (WHERE worker_id IS NOT NULL) AS running,
    min(created_at) FILTER (WHERE worker_id IS NULL) AS oldest_waiting_at
FROM dag_queue_messages
GROUP BY queue

-- name: recorded_leases
-- Which of these were reported by this worker before: asked again because the answer was lost, it is told the same.
-- row: LeaseKey
SELECT t.task_id, t.lease_epoch
FROM jsonb_array_elements(%(tasks)s::jsonb) AS r
JOIN dag_task_results AS t ON t.task_id = r->>{task_id} AND t.lease_epoch = (r->>{lease_epoch})::bigint
WHERE t.worker_id = %(worker_id)s AND t.status IN ('completed', 'failed', 'cancelled')

-- name: count_held
SELECT count(*) FROM dag_queue_messages WHERE worker_id = %(worker_id)s

-- name: waiting_namespaces
-- By queue, whose tasks are among the first that wait, and null if there are more. Suspects count as well: somebody may
-- take them.
SELECT given.queue, waiting.namespace
FROM unnest(%(queues)s::text[]) AS given (queue)
CROSS JOIN LATERAL (
    SELECT DISTINCT CASE WHEN f.number < %(limit)s THEN f.namespace END AS namespace
    FROM (
        SELECT q.namespace, row_number() OVER () AS number
        FROM dag_queue_messages AS q
        WHERE q.queue = given.queue AND q.worker_id IS NULL AND q.available_at IS NULL
        LIMIT %(limit)s
    ) AS f
) AS waiting

-- name: first_waiting
SELECT order_key FROM dag_queue_messages
WHERE queue = %(queue)s AND worker_id IS NULL AND available_at IS NULL AND order_key >= %(after)s
ORDER BY order_key
LIMIT 1

-- name: dead_queue_rows
SELECT pg_stat_get_dead_tuples('dag_queue_messages'::regclass)
