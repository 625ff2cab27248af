-- What is owed must be done in time. Each query gives (subject, what is late) and nothing if all is well. An owner that
-- was not heard for a lease is somebody else's matter. %(grace_seconds)s is 0 unless a fault was injected lately. Who has
-- much to do is given the time that it takes, at the pace of its turns (chaos_seconds_for). Ages are those in the
-- snapshot, so they end at now(): clock_timestamp() goes on while a busy machine checks, and makes its rows look old.

-- name: no_owned_job_stays_pending
-- After five seconds if jobs that came later to the same owner have begun: then it was not only busy.
SELECT o.job_id, format('pending, and owned by %%s since %%s', o.owner_id, o.owned_since)
FROM (
    SELECT *, chaos_seconds_for(count(*) OVER (PARTITION BY owner_id), stats) + %(grace_seconds)s AS more
    FROM chaos_owned
    WHERE status = 'pending' AND heartbeat_at > now() - %(ttl_seconds)s * interval '1 s'
) AS o
WHERE o.owned_since < now() - (5 + o.more) * interval '1 s'
    AND (
        o.owned_since < now() - (30 + o.more) * interval '1 s' OR EXISTS (
            SELECT FROM chaos_owners AS c
            JOIN dag_jobs AS later ON later.job_id = c.job_id
            WHERE c.became = o.owner_id AND c.at > o.owned_since + interval '1 s'
                AND later.started_at BETWEEN c.at AND now() - interval '3 s'
        )
    )

-- name: every_loop_comes_round
SELECT p.id, format('loop %%s came round last %%s s before its heartbeat', l.key, l.value)
FROM (
    SELECT owner_id AS id, heartbeat_at, stats FROM dag_orchestrators
    UNION ALL SELECT worker_id, heartbeat_at, stats FROM dag_workers
) AS p
CROSS JOIN LATERAL jsonb_each_text(
    CASE WHEN jsonb_typeof(p.stats->'loops') = 'object' THEN p.stats->'loops' ELSE '{}' END) AS l
WHERE p.heartbeat_at > now() - %(ttl_seconds)s * interval '1 s'
    AND l.value::float8 > GREATEST(2 * %(ttl_seconds)s, 20) + %(grace_seconds)s

-- name: every_thread_lives
-- Nothing has gone wrong that a thread could die of.
SELECT p.id, format('thread %%s was restarted %%s times', l.key, l.value)
FROM (
    SELECT owner_id AS id, stats FROM dag_orchestrators UNION ALL SELECT worker_id, stats FROM dag_workers
) AS p
CROSS JOIN LATERAL jsonb_each_text(
    CASE WHEN jsonb_typeof(p.stats->'threads') = 'object' THEN p.stats->'threads' ELSE '{}' END) AS l
WHERE l.value::float8 > 0 AND NOT %(faults)s

-- name: nothing_falls_into_the_net
-- The net that finds forgotten jobs heals them; without a fault nothing is forgotten. Where turns take seconds, a job in
-- line looks like one.
SELECT e.owner_id, format('%%s jobs were owed something, such as %%s: %%s', e.event_data->>'owed_jobs',
    e.event_data->>'job_id', e.event_data->>'why')
FROM dag_orchestrator_events AS e
LEFT JOIN dag_orchestrators AS o ON o.owner_id = e.owner_id
WHERE e.event_data ? 'owed_jobs' AND NOT %(faults)s AND COALESCE((o.stats->>'cycle_ms_p99')::float8, 0) < 1000

-- name: nothing_in_memory_outgrows_its_bound
SELECT p.id, format('%%s holds %%s', l.key, l.value)
FROM (
    SELECT owner_id AS id, stats FROM dag_orchestrators UNION ALL SELECT worker_id, stats FROM dag_workers
) AS p
CROSS JOIN LATERAL jsonb_each_text(
    CASE WHEN jsonb_typeof(p.stats->'sizes') = 'object' THEN p.stats->'sizes' ELSE '{}' END) AS l
WHERE l.value::float8 > COALESCE((%(bounds)s::jsonb->>l.key)::float8, (%(bounds)s::jsonb->>'')::float8)

-- name: ready_fan_ins_are_served
SELECT r.job_id, format('%%s is ready since %%s', r.node_id, r.ready_at)
FROM (
    SELECT n.job_id, n.node_id, n.ready_at, GREATEST(n.ready_at, o.owned_since) AS since, o.stats,
        count(*) OVER (PARTITION BY o.owner_id) AS ready
    FROM chaos_owned AS o
    JOIN chaos_nodes AS c ON c.workflow_id = o.workflow_id AND c.node_type = 'fan_in'
    JOIN dag_node_states AS n ON n.job_id = o.job_id AND n.node_id = c.node_id
    WHERE n.status = 'ready' AND o.ending IS NULL
        AND o.heartbeat_at > now() - %(ttl_seconds)s * interval '1 s'
) AS r
WHERE r.since < now() - (10 + chaos_seconds_for(r.ready, r.stats) + %(grace_seconds)s) * interval '1 s'

-- name: due_retries_are_served
SELECT d.job_id, format('%%s is due since %%s, with %%s others', d.node_id, d.next_attempt_at, d.due - 1)
FROM (
    SELECT n.job_id, n.node_id, n.next_attempt_at, GREATEST(n.next_attempt_at, o.owned_since) AS since, o.stats,
        count(*) OVER (PARTITION BY o.owner_id) AS due
    FROM dag_node_states AS n
    JOIN chaos_owned AS o ON o.job_id = n.job_id
    WHERE n.next_attempt_at < now() AND o.ending IS NULL
        AND o.heartbeat_at > now() - %(ttl_seconds)s * interval '1 s'
) AS d
WHERE d.since < now() - (10 + chaos_seconds_for(d.due, d.stats) + %(grace_seconds)s) * interval '1 s'

-- name: passed_deadlines_are_served
-- Two leases later at most: who has just come to own a job waits for its workers to say what they have.
SELECT n.job_id, format('%%s is over time since %%s', n.node_id, n.deadline_at)
FROM dag_node_states AS n
JOIN chaos_owned AS o ON o.job_id = n.job_id
WHERE o.ending IS NULL AND o.heartbeat_at > now() - %(ttl_seconds)s * interval '1 s'
    AND n.deadline_at < now() AND GREATEST(n.deadline_at, o.owned_since)
        < now() - (10 + 2 * %(ttl_seconds)s + %(grace_seconds)s) * interval '1 s'

-- name: the_inbox_is_read
SELECT i.job_id, format('%%s for %%s since %%s, with %%s others', i.kind, i.owner_id, i.created_at, i.waiting - 1)
FROM (
    SELECT i.job_id, i.kind, i.owner_id, i.created_at, GREATEST(i.created_at, o.owned_since) AS since,
        count(*) OVER (PARTITION BY i.owner_id) AS waiting, p.stats,
        -- What is said to a job that has ended is swept after ten seconds.
        CASE WHEN o.job_id IS NULL THEN 20 ELSE 10 END AS seconds
    FROM dag_inbox AS i
    JOIN dag_orchestrators AS p ON p.owner_id = i.owner_id
        AND p.heartbeat_at > now() - %(ttl_seconds)s * interval '1 s'
    LEFT JOIN chaos_owned AS o ON o.job_id = i.job_id
) AS i
WHERE i.since < now() - (i.seconds + chaos_seconds_for(i.waiting, i.stats) + %(grace_seconds)s) * interval '1 s'

-- name: leases_unknown
-- Of each worker the leases that are older than its last heartbeat by far, if it said to hold fewer tasks than that.
SELECT w.worker_id, format('%%s leases, of which it knows %%s', count(*), w.stats->>'tasks_held')
FROM dag_workers AS w
JOIN dag_queue_messages AS q ON q.worker_id = w.worker_id AND q.claimed_at < w.heartbeat_at - interval '5 s'
WHERE w.heartbeat_at > now() - %(ttl_seconds)s * interval '1 s' AND w.stats->>'tasks_held' IS NOT NULL
GROUP BY w.worker_id
HAVING count(*) > (w.stats->>'tasks_held')::int
