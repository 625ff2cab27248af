-- name: child_counts
SELECT parent_node_id, status, count(*)
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id IS NOT NULL
GROUP BY parent_node_id, status
