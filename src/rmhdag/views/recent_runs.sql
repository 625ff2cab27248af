-- name: recent_runs
-- Per workflow a short range of the index by workflow.
SELECT w.workflow_id, j.job_id, j.status, j.created_at,
    EXTRACT(EPOCH FROM COALESCE(j.completed_at, statement_timestamp()) - j.started_at)::float8 AS duration_seconds
FROM unnest(%(workflows)s::text[]) AS w (workflow_id)
CROSS JOIN LATERAL (
    SELECT job_id, status, created_at, started_at, completed_at
    FROM dag_jobs
    WHERE namespace = %(namespace)s AND workflow_id = w.workflow_id
    ORDER BY created_at DESC, job_id DESC
    LIMIT %(last)s
) AS j
ORDER BY w.workflow_id, j.created_at, j.job_id
