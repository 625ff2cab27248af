-- name: index_of_job
SELECT created_at, task_id, lease_epoch, chunk_index, node_id, line_count
FROM dag_task_logs
WHERE task_id >= %(job_id)s || '-' AND task_id < %(job_id)s || '.'
    AND (%(fan_out)s::text IS NULL
        OR (node_id >= %(fan_out)s::text || '__0' AND node_id < %(fan_out)s::text || '__:'))
    AND created_at > %(after)s
ORDER BY created_at, task_id, lease_epoch, chunk_index

-- name: index_of_tasks
SELECT created_at, task_id, lease_epoch, chunk_index, node_id, line_count
FROM dag_task_logs
WHERE task_id = ANY(%(tasks)s) AND created_at > %(after)s
ORDER BY created_at, task_id, lease_epoch, chunk_index

-- name: contents
-- Each by its key, the time included, so that one partition is asked for each. LIMIT keeps the planner from reading all
-- chunks of a table that it has no statistics of yet, and from searching their texts before it knows which are meant.
SELECT k.place, l.truncated, l.content
FROM unnest(%(tasks)s::text[], %(epochs)s::bigint[], %(chunks)s::int[], %(times)s::timestamptz[])
    WITH ORDINALITY AS k (task_id, lease_epoch, chunk_index, created_at, place)
CROSS JOIN LATERAL (
    SELECT truncated, content
    FROM dag_task_logs AS t
    WHERE t.task_id = k.task_id AND t.lease_epoch = k.lease_epoch AND t.chunk_index = k.chunk_index
        AND t.created_at = k.created_at
    LIMIT 1
) AS l
WHERE %(text)s::text IS NULL OR strpos(lower(l.content), %(text)s::text) > 0
ORDER BY k.place
