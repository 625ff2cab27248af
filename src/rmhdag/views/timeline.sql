-- name: timeline
SELECT seq, created_at, event_type, event_status, node_id, task_id, duration_ms, source_app, error_message, event_data
FROM dag_job_events
WHERE job_id = %(job_id)s AND seq > %(after)s
    AND (%(node_id)s::text IS NULL OR node_id = %(node_id)s)
    AND (%(event_types)s::event_type[] IS NULL OR event_type = ANY(%(event_types)s::event_type[]))
ORDER BY seq
LIMIT %(limit)s

-- name: timeline_summary
-- From `after` on, so that a caller that remembers the summary until there reads only newer events.
SELECT
    event_type, count(*), min(created_at), max(created_at), max(seq),
    array_agg(DISTINCT node_id) FILTER (WHERE event_type = 'node_retrying' AND NOT event_data ? 'snoozed')
FROM dag_job_events
WHERE job_id = %(job_id)s AND seq > %(after)s AND (%(node_id)s::text IS NULL OR node_id = %(node_id)s)
GROUP BY event_type
