-- name: arrived
-- Those that are still there; the others are counted with their reports.
SELECT queue, count(*) AS arrived
FROM dag_queue_messages
WHERE namespace = %(namespace)s AND created_at > clock_timestamp() - %(minutes)s * interval '1 minute'
GROUP BY queue

-- name: reported
-- Children are counted under their fan-out. A node's row knows when it was last put into its queue.
SELECT
    j.workflow_id, j.workflow_version, j.workflow_hash, COALESCE(n.parent_node_id, n.node_id) AS node_id,
    count(*) AS reported,
    count(*) FILTER (
        WHERE n.dispatched_at > clock_timestamp() - %(minutes)s * interval '1 minute'
    ) AS arrived
FROM (
    SELECT job_id, node_id
    FROM dag_task_results
    WHERE reported_at > clock_timestamp() - %(minutes)s * interval '1 minute' AND namespace = %(namespace)s
        AND status IN ('completed', 'failed', 'cancelled')
    LIMIT %(most)s
) AS r
JOIN dag_node_states AS n ON n.job_id = r.job_id AND n.node_id = r.node_id
JOIN dag_jobs AS j ON j.job_id = r.job_id
GROUP BY 1, 2, 3, 4
