-- name: waiting
-- Longest first. The page is cut before the jobs are looked up, by their keys.
SELECT a.job_id, a.node_id, j.workflow_id, j.submitted_by, a.message, a.approvers,
    a.requested_at AS waiting_since, a.deadline_at, j.asset_id, j.revision, g.platform_id, g.platform_refs,
    v.review_state <> 'none' AS is_reviewed
FROM (
    SELECT job_id, node_id, message, approvers, requested_at, deadline_at
    FROM dag_waiting_approvals
    WHERE namespace = %(namespace)s
        AND (requested_at, job_id, node_id) > (%(requested_at)s::timestamptz, %(first_id)s, %(second_id)s)
    ORDER BY requested_at, job_id, node_id
    LIMIT %(limit)s
) AS a
JOIN dag_jobs AS j USING (job_id)
LEFT JOIN dag_geospatial_assets AS g ON g.namespace = j.namespace AND g.asset_id = j.asset_id
LEFT JOIN dag_asset_revisions AS v
    ON v.namespace = j.namespace AND v.asset_id = j.asset_id AND v.revision = j.revision
ORDER BY a.requested_at, a.job_id, a.node_id
