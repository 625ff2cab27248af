-- part: not_by
-- Four eyes: who has ordered it must not approve it.
CASE WHEN COALESCE(
    (SELECT p.review FROM dag_platforms AS p WHERE p.namespace = v.namespace AND p.platform_id = g.platform_id),
    (SELECT p.review FROM dag_platforms AS p WHERE p.namespace = 'default' AND p.platform_id = g.platform_id)
) = 'four_eyes' THEN ARRAY(
    SELECT v.created_by
    UNION SELECT q.submitted_by FROM dag_api_requests AS q
    WHERE q.namespace = v.namespace AND q.asset_id = v.asset_id AND q.revision = v.revision
) ELSE '{}' END

-- name: waiting_nodes
-- Longest first. The page is cut before the jobs are looked up, by their keys.
SELECT a.job_id, a.node_id, j.workflow_id, j.submitted_by, a.message, a.approvers,
    a.requested_at AS waiting_since, a.deadline_at, j.asset_id, j.revision, g.platform_id, g.platform_refs,
    v.review_state <> 'none' AS is_reviewed,
-- include: not_by
AS not_by
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

-- name: waiting_reviews
-- Longest first. The page is cut before the rest is looked up, by its keys.
SELECT
    p.approval_id, p.requested_at, p.message, p.asset_id, p.revision, p.content_hash, g.platform_id, g.platform_refs,
    g.kind, g.current_revision, v.version_label, v.created_by, v.job_id, j.workflow_id,
-- include: not_by
AS not_by
FROM (
    SELECT a.approval_id, a.requested_at, a.message, a.namespace, a.asset_id, a.revision, a.content_hash
    FROM dag_approvals AS a
    JOIN dag_asset_revisions AS v
        ON v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.revision = a.revision
    WHERE a.namespace = %(namespace)s AND a.decided_at IS NULL
        AND (a.requested_at, a.approval_id) > (%(requested_at)s::timestamptz, %(approval_id)s::text)
        AND v.review_state = 'pending_review' AND v.status = 'completed'
    ORDER BY a.requested_at, a.approval_id
    LIMIT %(limit)s
) AS p
JOIN dag_asset_revisions AS v ON v.namespace = %(namespace)s AND v.asset_id = p.asset_id AND v.revision = p.revision
JOIN dag_geospatial_assets AS g ON g.namespace = %(namespace)s AND g.asset_id = p.asset_id
LEFT JOIN dag_jobs AS j ON j.job_id = v.job_id
ORDER BY p.requested_at, p.approval_id

-- name: count_waiting
-- How many revisions wait for a reviewer in each namespace, and for how long the first of them has waited.
SELECT
    a.namespace, count(*), greatest(0, extract(epoch FROM clock_timestamp() - min(a.requested_at)))::float8
FROM dag_approvals AS a
JOIN dag_asset_revisions AS v ON v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.revision = a.revision
WHERE a.decided_at IS NULL AND v.review_state = 'pending_review' AND v.status = 'completed'
    AND (%(namespace)s::text IS NULL OR a.namespace = %(namespace)s)
GROUP BY a.namespace
