-- name: list
-- Oldest first: what has waited longest is looked at first.
SELECT dead_letter_id, queue, reason, error_message, job_id, node_id, task_id, created_at, settled_at, settled_by, settled_as
FROM dag_dead_letters
WHERE namespace = %(namespace)s AND (settled_at IS NULL OR %(all)s)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s)
    AND (%(reason)s::text IS NULL OR reason = %(reason)s)
    AND (%(job_id)s::text IS NULL OR job_id = %(job_id)s)
    AND (%(after)s::text IS NULL OR dead_letter_id > %(after)s)
ORDER BY dead_letter_id
LIMIT %(limit)s

-- name: read
SELECT dead_letter_id, queue, reason, error_message, job_id, node_id, task_id, created_at, settled_at, settled_by, settled_as,
    worker_id, lease_losses, details, body, left(raw, 4000) AS raw
FROM dag_dead_letters
WHERE namespace = %(namespace)s AND dead_letter_id = %(letter)s

-- name: settle
UPDATE dag_dead_letters
SET settled_at = clock_timestamp(), settled_by = %(by)s, settled_as = %(as)s, details = details || %(details)s::jsonb
WHERE namespace = %(namespace)s AND dead_letter_id = %(letter)s AND settled_at IS NULL
