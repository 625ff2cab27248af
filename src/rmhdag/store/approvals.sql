-- name: insert_waiting
-- A job that was loaded again asks again: what is known stays as it is.
-- row: ApprovalRequest
INSERT INTO dag_waiting_approvals (job_id, node_id, namespace, requested_at, deadline_at, message, approvers)
SELECT
    r->>{job_id}, r->>{node_id}, r->>{namespace}, %(now)s, (r->>{deadline_at})::timestamptz, r->>{message},
    r->{approvers}
FROM jsonb_array_elements(%(approvals)s::jsonb) AS r
ON CONFLICT (job_id, node_id) DO NOTHING

-- name: delete_closed
-- row: NodeOfJob
DELETE FROM dag_waiting_approvals AS a
USING jsonb_array_elements(%(approvals)s::jsonb) AS r
WHERE a.job_id = r->>{job_id} AND a.node_id = r->>{node_id} AND jsonb_typeof(r) = 'array'
