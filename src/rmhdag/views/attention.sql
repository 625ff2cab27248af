-- name: running_longest
SELECT job_id, workflow_id, submitted_by, started_at,
    EXTRACT(EPOCH FROM statement_timestamp() - started_at)::float8 AS running_seconds
FROM dag_jobs
WHERE namespace = %(namespace)s AND completed_at IS NULL AND started_at IS NOT NULL
ORDER BY created_at
LIMIT %(most)s

-- name: waiting_counts
SELECT
    (SELECT count(*) FROM dag_dead_letters WHERE namespace = %(namespace)s AND settled_at IS NULL) AS dead_letters,
    (
        SELECT count(*)
        FROM dag_callbacks
        WHERE namespace = %(namespace)s AND (status = 'dead' OR (status = 'pending' AND attempts >= %(tries)s))
    ) AS callbacks,
    (SELECT count(*) FROM dag_waiting_approvals WHERE namespace = %(namespace)s) AS approvals,
    (SELECT count(*) FROM dag_approvals WHERE namespace = %(namespace)s AND decided_at IS NULL) AS reviews,
    statement_timestamp() AS checked_at

-- name: finished
WITH ended AS (
    SELECT status, EXTRACT(EPOCH FROM completed_at - started_at) AS seconds,
        EXTRACT(EPOCH FROM started_at - created_at) AS waited
    FROM dag_jobs
    WHERE namespace = %(namespace)s AND completed_at >= %(since)s
    ORDER BY completed_at DESC
    LIMIT %(most)s
)
SELECT
    count(*) AS finished,
    count(*) FILTER (WHERE status = 'completed') AS completed,
    count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    (percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE status = 'completed'))::float8
        AS p50_duration_seconds,
    (percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE status = 'completed'))::float8
        AS p95_duration_seconds,
    (percentile_cont(0.5) WITHIN GROUP (ORDER BY waited))::float8 AS p50_wait_seconds,
    (percentile_cont(0.95) WITHIN GROUP (ORDER BY waited))::float8 AS p95_wait_seconds
FROM ended
