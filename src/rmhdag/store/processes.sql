-- name: register_orchestrator
INSERT INTO dag_orchestrators (owner_id, host, process_id, version, heartbeat_at, started_at)
VALUES (%(owner_id)s, %(host)s, %(process_id)s, %(version)s, clock_timestamp(), clock_timestamp())

-- name: beat_orchestrator
UPDATE dag_orchestrators SET heartbeat_at = clock_timestamp(), stats = %(stats)s::jsonb WHERE owner_id = %(owner_id)s
RETURNING drain_requested_at IS NOT NULL

-- name: drain_worker
WITH drained AS (
    UPDATE dag_workers
    SET draining = true, drain_requested_at = COALESCE(drain_requested_at, clock_timestamp())
    WHERE worker_id = %(worker_id)s AND (%(among)s::text IS NULL OR serves_namespace = %(among)s)
    RETURNING worker_id, host, process_id
)
INSERT INTO dag_audit (namespace, actor, action, subject, after)
SELECT %(namespace)s, %(actor)s, 'worker.drain', worker_id, jsonb_build_object('host', host, 'process_id', process_id)
FROM drained

-- name: drain_orchestrator
WITH drained AS (
    UPDATE dag_orchestrators
    SET stopping = true, drain_requested_at = COALESCE(drain_requested_at, clock_timestamp())
    WHERE owner_id = %(owner_id)s
    RETURNING owner_id, host, process_id
)
INSERT INTO dag_audit (namespace, actor, action, subject, after)
SELECT %(namespace)s, %(actor)s, 'orchestrator.drain', owner_id, jsonb_build_object('host', host, 'process_id', process_id)
FROM drained

-- name: remove_orchestrators
DELETE FROM dag_orchestrators WHERE owner_id = ANY(%(owners)s)

-- name: orchestrator_heartbeats
SELECT owner_id, heartbeat_at::text FROM dag_orchestrators

-- name: worker_heartbeats
SELECT worker_id, heartbeat_at::text FROM dag_workers

-- name: remove_workers
DELETE FROM dag_workers WHERE worker_id = ANY(%(workers)s)

-- name: owners_without_heartbeat
-- Owners of live jobs that have no row at all: another orchestrator saw them dead, or they have left. From one owner to
-- the next by the index: a second has room for few looks at all jobs, and there may be 300,000 of them.
WITH RECURSIVE owners AS (
    (
        SELECT owner_id FROM dag_jobs
        WHERE completed_at IS NULL AND owner_id IS NOT NULL
        ORDER BY owner_id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.owner_id FROM dag_jobs AS j
        WHERE j.completed_at IS NULL AND j.owner_id > owners.owner_id
        ORDER BY j.owner_id
        LIMIT 1
    )
    FROM owners
    WHERE owners.owner_id IS NOT NULL
)
SELECT owner_id FROM owners
WHERE owner_id IS NOT NULL AND NOT EXISTS (SELECT FROM dag_orchestrators AS o WHERE o.owner_id = owners.owner_id)

-- name: workers_without_heartbeat
-- Likewise. `lost:…` is not a worker, and all of these are passed in one step.
WITH RECURSIVE workers AS (
    (SELECT worker_id FROM dag_queue_messages WHERE worker_id IS NOT NULL ORDER BY worker_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT q.worker_id FROM dag_queue_messages AS q
        WHERE q.worker_id > CASE WHEN workers.worker_id LIKE 'lost:%%' THEN 'lost;' ELSE workers.worker_id END
        ORDER BY q.worker_id
        LIMIT 1
    )
    FROM workers
    WHERE workers.worker_id IS NOT NULL
)
SELECT worker_id FROM workers
WHERE worker_id IS NOT NULL AND worker_id NOT LIKE 'lost:%%'
    AND NOT EXISTS (SELECT FROM dag_workers AS w WHERE w.worker_id = workers.worker_id)

-- name: count_live_jobs
SELECT owner_id, count(*) FROM dag_jobs WHERE completed_at IS NULL AND owner_id = ANY(%(owners)s) GROUP BY owner_id

-- name: registered_process_ids
SELECT process_id FROM dag_orchestrators UNION SELECT process_id FROM dag_workers

-- name: insert_orchestrator_event
INSERT INTO dag_orchestrator_events (owner_id, event_type, event_status, source_app, error_message, event_data)
VALUES (%(owner_id)s, %(event_type)s, %(event_status)s, 'orchestrator', %(error_message)s, %(event_data)s::jsonb)
