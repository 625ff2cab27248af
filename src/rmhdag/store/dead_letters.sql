-- name: list
-- Oldest first: what has waited longest is looked at first.
SELECT dead_letter_id, queue, reason, error_message, job_id, node_id, task_id, created_at, settled_at, settled_by, settled_as
FROM dag_dead_letters
WHERE namespace = %(namespace)s AND (settled_at IS NULL OR %(all)s)
ORDER BY dead_letter_id
LIMIT %(limit)s

-- name: find
-- By id, or by the beginning of one.
SELECT dead_letter_id, queue, reason, error_message, job_id, node_id, task_id, created_at, settled_at, settled_by, settled_as
FROM dag_dead_letters
WHERE namespace = %(namespace)s AND starts_with(dead_letter_id, %(prefix)s)
ORDER BY dead_letter_id
LIMIT 2

-- name: settle
UPDATE dag_dead_letters
SET settled_at = clock_timestamp(), settled_by = %(by)s, settled_as = %(as)s, details = details || %(details)s::jsonb
WHERE namespace = %(namespace)s AND dead_letter_id = %(letter)s AND settled_at IS NULL
