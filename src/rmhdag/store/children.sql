-- name: read_children
-- A page by index; the outputs stand with the results, of this job or of the one it reruns.
SELECT n.node_id, n.fan_out_index, n.status, n.error_message, r.output
FROM dag_node_states AS n
LEFT JOIN dag_task_results AS r
    ON r.task_id = COALESCE(n.reused_task_id, n.task_id) AND r.status = 'completed' AND n.status = 'completed'
WHERE n.job_id = %(job_id)s AND n.parent_node_id = %(fan_out_id)s
    AND n.fan_out_index >= %(start)s AND n.fan_out_index < %(stop)s
ORDER BY n.fan_out_index
