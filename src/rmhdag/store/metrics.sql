-- Rollups up to the mark, and the jobs themselves behind it; both in one snapshot, see metrics.py.

-- name: period
-- One day goes by hours; more begin with a day, because older rollups are whole days.
SELECT
    CASE WHEN %(days)s = 1 THEN date_trunc('hour', now() - interval '1 day', 'UTC')
        ELSE date_trunc('day', now() - %(days)s * interval '1 day', 'UTC') END,
    now(),
    COALESCE((SELECT rolled_up_to FROM dag_rollup_marks WHERE namespace = %(namespace)s), 'epoch')

-- name: rolled_up_jobs
SELECT workflow_id, status, bucket, sum(jobs)::bigint, sum(duration_ms)::bigint
FROM dag_job_rollups
WHERE namespace = %(namespace)s AND starts_at >= %(since)s
    AND (%(workflow_id)s::text IS NULL OR workflow_id = %(workflow_id)s)
GROUP BY workflow_id, status, bucket

-- name: recent_jobs
SELECT
    workflow_id, status,
    CASE status WHEN 'completed' THEN floor(ln(GREATEST(d.ms, 1)) / ln(1.1))::int ELSE 0 END, count(*),
    sum(d.ms)::bigint
FROM dag_jobs,
    LATERAL (SELECT COALESCE(round(EXTRACT(EPOCH FROM completed_at - started_at) * 1000), 0)::bigint AS ms) AS d
WHERE namespace = %(namespace)s AND completed_at > %(mark)s AND completed_at >= %(since)s
    AND (%(workflow_id)s::text IS NULL OR workflow_id = %(workflow_id)s)
GROUP BY 1, 2, 3

-- name: open_jobs
SELECT workflow_id, count(*)
FROM dag_jobs
WHERE namespace = %(namespace)s AND completed_at IS NULL
    AND (%(workflow_id)s::text IS NULL OR workflow_id = %(workflow_id)s)
GROUP BY workflow_id

-- name: rolled_up_nodes
SELECT node_id, is_child, status, bucket, sum(nodes)::bigint, sum(duration_ms)::bigint, sum(retries)::bigint
FROM dag_node_rollups
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND starts_at >= %(since)s
GROUP BY node_id, is_child, status, bucket

-- name: recent_nodes
SELECT
    COALESCE(n.parent_node_id, n.node_id), n.parent_node_id IS NOT NULL, n.status,
    floor(ln(GREATEST(d.ms, 1)) / ln(1.1))::int, count(*), sum(d.ms)::bigint, sum(n.retry_count)::bigint
FROM dag_jobs AS j
JOIN dag_node_states AS n ON n.job_id = j.job_id,
    LATERAL (
        SELECT GREATEST(0, COALESCE(round(EXTRACT(EPOCH FROM
            n.completed_at - COALESCE(n.started_at, n.dispatched_at, n.ready_at)) * 1000), 0))::bigint AS ms
    ) AS d
WHERE j.namespace = %(namespace)s AND j.workflow_id = %(workflow_id)s AND j.completed_at > %(mark)s
    AND j.completed_at >= %(since)s AND n.status IN ('completed', 'failed') AND n.reused_task_id IS NULL
GROUP BY 1, 2, 3, 4

-- name: rolled_up_failures
SELECT workflow_id, node_id, error, sum(failures)::bigint, max(last_at)
FROM dag_failure_rollups
WHERE namespace = %(namespace)s AND starts_at >= %(since)s
    AND (%(workflow_id)s::text IS NULL OR workflow_id = %(workflow_id)s)
GROUP BY workflow_id, node_id, error

-- name: recent_failures
SELECT
    j.workflow_id, COALESCE(n.parent_node_id, n.node_id, ''),
    left(COALESCE(n.error_message, j.error_message, ''), 200), count(*), max(j.completed_at)
FROM dag_jobs AS j
LEFT JOIN dag_node_states AS n ON n.job_id = j.job_id AND n.status = 'failed'
WHERE j.namespace = %(namespace)s AND j.completed_at > %(mark)s AND j.completed_at >= %(since)s
    AND j.status = 'failed' AND (%(workflow_id)s::text IS NULL OR j.workflow_id = %(workflow_id)s)
GROUP BY 1, 2, 3

-- name: throughput_period
-- Buckets lie on the grid of their length since 1970; the first one is whole.
SELECT
    to_timestamp(floor(EXTRACT(EPOCH FROM now() - %(hours)s * interval '1 hour') / (%(minutes)s * 60))
        * (%(minutes)s * 60)),
    now(),
    COALESCE((SELECT rolled_up_to FROM dag_rollup_marks WHERE namespace = %(namespace)s), 'epoch')

-- name: throughput
SELECT
    to_timestamp(floor(EXTRACT(EPOCH FROM starts_at) / (%(minutes)s * 60)) * (%(minutes)s * 60)),
    sum(jobs)::bigint, sum(duration_ms)::bigint
FROM (
    SELECT starts_at, jobs, duration_ms
    FROM dag_throughput_rollups
    WHERE namespace = %(namespace)s AND starts_at >= %(since)s
    UNION ALL
    SELECT completed_at, 1, COALESCE(round(EXTRACT(EPOCH FROM completed_at - started_at) * 1000), 0)::bigint
    FROM dag_jobs
    WHERE namespace = %(namespace)s AND completed_at > %(mark)s AND completed_at >= %(since)s AND status = 'completed'
) AS done
GROUP BY 1
ORDER BY 1

-- name: node_history
-- For estimates: what has been summed up is enough.
SELECT node_id, bucket, sum(nodes)::bigint
FROM dag_node_rollups
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s
    AND starts_at >= now() - %(days)s * interval '1 day' AND NOT is_child AND status = 'completed'
GROUP BY node_id, bucket
