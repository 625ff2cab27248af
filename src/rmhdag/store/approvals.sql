-- name: insert_waiting
-- A job that was loaded again asks again: what is known stays as it is.
-- 0 job_id, 1 node_id, 2 namespace, 3 deadline_at, 4 message, 5 approvers
INSERT INTO dag_waiting_approvals (job_id, node_id, namespace, requested_at, deadline_at, message, approvers)
SELECT r->>0, r->>1, r->>2, %(now)s, (r->>3)::timestamptz, r->>4, r->5
FROM jsonb_array_elements(%(approvals)s::jsonb) AS r
ON CONFLICT (job_id, node_id) DO NOTHING

-- name: delete_closed
DELETE FROM dag_waiting_approvals AS a
USING jsonb_array_elements(%(approvals)s::jsonb) AS r
WHERE a.job_id = r->>0 AND a.node_id = r->>1 AND jsonb_typeof(r) = 'array'

-- name: waiting
-- Longest first. The page is cut before the jobs are looked up, by their keys.
SELECT a.job_id, a.node_id, j.workflow_id, j.submitted_by, a.message, a.approvers, a.requested_at, a.deadline_at
FROM (
    SELECT job_id, node_id, message, approvers, requested_at, deadline_at
    FROM dag_waiting_approvals
    WHERE namespace = %(namespace)s
        AND (requested_at, job_id, node_id) > (%(requested_at)s::timestamptz, %(job_id)s, %(node_id)s)
    ORDER BY requested_at, job_id, node_id
    LIMIT %(limit)s
) AS a
JOIN dag_jobs AS j USING (job_id)
ORDER BY a.requested_at, a.job_id, a.node_id
