-- name: nodes_of_job
-- By the beginning of a node's or a task's id, within one job.
SELECT n.node_id, n.task_id, n.status, j.workflow_id
FROM dag_node_states AS n
JOIN dag_jobs AS j ON j.job_id = n.job_id
WHERE n.job_id = %(job_id)s AND j.namespace = %(namespace)s
    AND (starts_with(n.node_id, %(node)s) OR starts_with(n.task_id, %(task)s))
ORDER BY n.node_id
LIMIT %(most)s

-- name: nodes_of_workflows
SELECT w.workflow_id, node.key AS node_id
FROM (
    SELECT DISTINCT ON (workflow_id) workflow_id, definition, retired_at
    FROM dag_workflows
    WHERE namespace = %(namespace)s AND superseded_at IS NULL
    ORDER BY workflow_id, version DESC
) AS w
CROSS JOIN LATERAL jsonb_object_keys(w.definition->'nodes') AS node(key)
WHERE w.retired_at IS NULL AND starts_with(node.key, %(q)s)
ORDER BY w.workflow_id, node.key
LIMIT %(most)s

-- name: requests
SELECT request_id, client_id, workflow_id, job_id
FROM dag_api_requests
WHERE namespace = %(namespace)s AND request_id >= %(q)s AND request_id < %(q_end)s
ORDER BY request_id
LIMIT %(most)s

-- name: assets
-- By id; and by what a platform calls it, among the newest: references have no index, and people look for what is new.
(
    SELECT asset_id, platform_id, kind, processing_status, platform_refs
    FROM dag_geospatial_assets
    WHERE namespace = %(namespace)s AND asset_id >= %(q)s AND asset_id < %(q_end)s AND deleted_at IS NULL
    ORDER BY asset_id
    LIMIT %(most)s
)
UNION
(
    SELECT asset_id, platform_id, kind, processing_status, platform_refs
    FROM (
        SELECT *
        FROM dag_geospatial_assets
        WHERE namespace = %(namespace)s
        ORDER BY created_at DESC, asset_id DESC
        LIMIT %(newest)s
    ) AS recent
    WHERE deleted_at IS NULL AND strpos(lower(platform_refs::text), lower(%(q)s)) > 0
    LIMIT %(most)s
)
LIMIT %(most)s
