-- name: open_jobs
SELECT job_id FROM dag_jobs WHERE completed_at IS NULL

-- name: left_over
SELECT (SELECT count(*) FROM dag_queue_messages), (SELECT count(*) FROM dag_inbox)

-- name: counts
SELECT
    (SELECT count(*) FROM dag_jobs),
    (SELECT count(*) FROM dag_jobs WHERE status = 'completed'),
    (SELECT count(*) FROM dag_jobs WHERE status = 'failed'),
    (SELECT count(*) FROM dag_jobs WHERE status = 'cancelled'),
    (SELECT count(*) FROM dag_task_results WHERE status IN ('completed', 'failed', 'cancelled')),
    (SELECT count(*) FROM dag_task_results WHERE status = 'lost'),
    (SELECT count(*) FROM dag_job_events WHERE event_type = 'job_reclaimed'),
    (SELECT count(*) FROM dag_job_events WHERE event_type = 'node_lost'),
    (SELECT count(*) FROM dag_dead_letters)

-- name: ends
SELECT job_id, workflow_id, status::text, result_data, input_params->'x', error_message,
    EXISTS (SELECT FROM dag_dead_letters AS d WHERE d.job_id = j.job_id),
    EXISTS (SELECT FROM dag_job_commands AS c WHERE c.job_id = j.job_id AND c.kind = 'cancel')
FROM dag_jobs AS j
WHERE completed_at >= %(since)s

-- name: runnable
-- Tasks that wait although a worker that was heard just now serves their queue and has a free slot; a suspect needs a
-- worker that has nothing, nobody is to be had beside one, and half of the workers are left to the others.
SELECT q.task_id, q.lease_epoch, q.job_id, q.node_id
FROM dag_queue_messages AS q
WHERE q.worker_id IS NULL AND q.available_at IS NULL AND EXISTS (
    SELECT FROM dag_workers AS w
    CROSS JOIN LATERAL (
        SELECT count(*) AS held, count(*) FILTER (WHERE h.lease_losses > 1) AS suspects
        FROM dag_queue_messages AS h
        WHERE h.worker_id = w.worker_id
    ) AS h
    WHERE w.queues ? q.queue AND NOT w.draining AND w.heartbeat_at > clock_timestamp() - interval '3 s'
        AND h.suspects = 0 AND h.held < CASE WHEN q.lease_losses > 1 THEN 1 ELSE w.slots END
) AND (
    q.lease_losses < 2 OR (
        SELECT 2 * count(*) FILTER (WHERE EXISTS (
            SELECT FROM dag_queue_messages AS h WHERE h.worker_id = w.worker_id AND h.lease_losses > 1
        )) < count(*)
        FROM dag_workers AS w
        WHERE w.queues ? q.queue
    )
)

-- name: missing
SELECT id FROM unnest(%(ids)s::text[]) AS id WHERE NOT EXISTS (SELECT FROM dag_jobs WHERE job_id = id)

-- name: jobs_noticed
-- Seconds from the death of an orchestrator to each of its jobs being somebody else's, and whether the database or the
-- connections to it were disturbed meanwhile.
SELECT extract(epoch FROM e.created_at - l.ended_at)::float8, EXISTS (
    SELECT FROM chaos_lives AS d WHERE d.role = 'database' AND d.ended_at BETWEEN l.ended_at - interval '6 s' AND e.created_at)
FROM dag_job_events AS e
JOIN chaos_lives AS l ON l.process_id = e.event_data->>'from' AND l.role = 'orchestrator' AND l.how = 'kill'
-- One that was killed after it had been frozen for long was noticed before its death.
WHERE e.event_type = 'job_reclaimed' AND e.created_at >= l.ended_at

-- name: tasks_noticed
-- Seconds from the death of a worker to its leases being called lost.
SELECT extract(epoch FROM r.reported_at - l.ended_at)::float8, EXISTS (
    SELECT FROM chaos_lives AS d WHERE d.role = 'database' AND d.ended_at BETWEEN l.ended_at - interval '6 s' AND r.reported_at)
FROM dag_task_results AS r
JOIN chaos_lives AS l ON l.process_id = r.worker_id AND l.role = 'worker' AND l.how = 'kill'
WHERE r.status = 'lost' AND r.reported_at >= l.ended_at

-- name: tasks_running_again
-- Seconds from the death of a worker to the next start of each task that it held.
SELECT extract(epoch FROM min(n.started_at) - l.ended_at)::float8, EXISTS (
    SELECT FROM chaos_lives AS d
    WHERE d.role = 'database' AND d.ended_at BETWEEN l.ended_at - interval '6 s' AND min(n.started_at))
FROM dag_task_results AS r
JOIN chaos_lives AS l ON l.process_id = r.worker_id AND l.role = 'worker' AND l.how = 'kill'
JOIN dag_task_results AS n ON n.task_id = r.task_id AND n.lease_epoch > r.lease_epoch AND n.started_at IS NOT NULL
WHERE r.status = 'lost' AND r.reported_at >= l.ended_at
GROUP BY r.task_id, r.lease_epoch, l.ended_at

-- name: silent_seconds
SELECT (event_data->>'silent_seconds')::float8, false FROM dag_job_events WHERE event_type = 'job_reclaimed'

-- name: jobs_handed_over
-- Seconds from SIGTERM for an orchestrator to each of its jobs being somebody else's.
SELECT extract(epoch FROM min(n.at) - l.ended_at)::float8, EXISTS (
    SELECT FROM chaos_lives AS d
    WHERE d.role = 'database' AND d.ended_at BETWEEN l.ended_at - interval '6 s' AND min(n.at))
FROM chaos_lives AS l
JOIN chaos_owners AS r ON r.was = l.process_id AND r.became IS NULL
JOIN chaos_owners AS n ON n.job_id = r.job_id AND n.was IS NULL AND n.at >= r.at
WHERE l.role = 'orchestrator' AND l.how = 'leave' AND n.at >= l.ended_at
GROUP BY l.process_id, l.ended_at, r.job_id

-- name: progress
-- Nodes that were completed, in each whole slice of time.
SELECT (SELECT count(*) FROM dag_node_states AS n WHERE n.completed_at >= s.at AND n.completed_at < s.at + s.width)
FROM (SELECT at, %(slice)s * interval '1 s' AS width
    FROM generate_series(%(began)s::timestamptz, %(ended)s::timestamptz, %(slice)s * interval '1 s') AS at) AS s
WHERE s.at + s.width <= %(ended)s::timestamptz
ORDER BY s.at

-- name: held_in_memory
SELECT p.id, l.key, l.value::float8
FROM (
    SELECT owner_id AS id, stats FROM dag_orchestrators UNION ALL SELECT worker_id, stats FROM dag_workers
) AS p
CROSS JOIN LATERAL jsonb_each_text(
    CASE WHEN jsonb_typeof(p.stats->'sizes') = 'object' THEN p.stats->'sizes' ELSE '{}' END) AS l
WHERE l.value IS NOT NULL

-- name: unused_payloads
-- Nobody has used them for so long that they must be gone.
SELECT p.sha256, format('%%s bytes of %%s, used by nobody', p.size_bytes, p.created_at)
FROM dag_payloads AS p
WHERE p.chunk_index = 0 AND p.media_type <> 'unfinished'
    AND p.created_at < clock_timestamp() - %(unused_seconds)s * interval '1 s'
    AND NOT EXISTS (SELECT FROM dag_payload_uses AS u WHERE u.namespace = p.namespace AND u.sha256 = p.sha256)
