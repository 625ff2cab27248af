-- name: register_orchestrator
INSERT INTO dag_orchestrators (owner_id, host, process_id, version, heartbeat_at, started_at)
VALUES (%(owner_id)s, %(host)s, %(process_id)s, %(version)s, clock_timestamp(), clock_timestamp())

-- name: beat_orchestrator
UPDATE dag_orchestrators SET heartbeat_at = clock_timestamp(), stats = %(stats)s::jsonb WHERE owner_id = %(owner_id)s

-- name: remove_orchestrators
DELETE FROM dag_orchestrators WHERE owner_id = ANY(%(owners)s)

-- name: orchestrator_heartbeats
SELECT owner_id, heartbeat_at::text FROM dag_orchestrators

-- name: worker_heartbeats
SELECT worker_id, heartbeat_at::text FROM dag_workers

-- name: remove_workers
DELETE FROM dag_workers WHERE worker_id = ANY(%(workers)s)

-- name: owners_without_heartbeat
-- Owners of live jobs that have no row at all: whoever removed the row saw them dead or saw them leave.
SELECT DISTINCT j.owner_id
FROM dag_jobs AS j
LEFT JOIN dag_orchestrators AS o ON o.owner_id = j.owner_id
WHERE j.completed_at IS NULL AND j.owner_id IS NOT NULL AND o.owner_id IS NULL

-- name: workers_without_heartbeat
SELECT DISTINCT q.worker_id
FROM dag_queue_messages AS q
LEFT JOIN dag_workers AS w ON w.worker_id = q.worker_id
WHERE q.worker_id IS NOT NULL AND q.worker_id NOT LIKE 'lost:%%' AND w.worker_id IS NULL

-- name: count_live_jobs
SELECT owner_id, count(*) FROM dag_jobs WHERE completed_at IS NULL AND owner_id = ANY(%(owners)s) GROUP BY owner_id

-- name: insert_orchestrator_event
INSERT INTO dag_orchestrator_events (owner_id, event_type, event_status, source_app, error_message, event_data)
VALUES (%(owner_id)s, %(event_type)s, %(event_status)s, 'orchestrator', %(error_message)s, %(event_data)s::jsonb)
