-- Durations are whole milliseconds, so that sums are the same in whatever order they are made. A bucket is a power of 1.1.

-- name: add_namespaces
-- Those that have a finished job: from one to the next by the index, not by reading the jobs.
WITH RECURSIVE found AS (
    (SELECT namespace FROM dag_jobs WHERE completed_at IS NOT NULL ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (
        SELECT j.namespace FROM dag_jobs AS j
        WHERE j.completed_at IS NOT NULL AND j.namespace > found.namespace
        ORDER BY j.namespace LIMIT 1
    )
    FROM found
    WHERE found.namespace IS NOT NULL
)
INSERT INTO dag_rollup_marks (namespace, rolled_up_to)
SELECT namespace, 'epoch' FROM found
WHERE namespace IS NOT NULL AND NOT EXISTS (SELECT FROM dag_rollup_marks AS m WHERE m.namespace = found.namespace)
ON CONFLICT DO NOTHING

-- name: namespaces
SELECT namespace FROM dag_rollup_marks ORDER BY namespace

-- name: lock_mark
-- One orchestrator at a time; the others do not wait.
SELECT rolled_up_to FROM dag_rollup_marks WHERE namespace = %(namespace)s FOR UPDATE SKIP LOCKED

-- name: mark
SELECT rolled_up_to FROM dag_rollup_marks WHERE namespace = %(namespace)s

-- name: slice_end
-- A bite of jobs, or all of them; the youngest are left, because their like may still be committed.
SELECT max(completed_at), count(*) FROM (
    SELECT completed_at FROM dag_jobs
    WHERE namespace = %(namespace)s AND completed_at > %(after)s
        AND completed_at <= clock_timestamp() - %(settling_seconds)s * interval '1 second'
    ORDER BY completed_at
    LIMIT %(bite)s
) AS bitten

-- name: set_mark
UPDATE dag_rollup_marks SET rolled_up_to = %(until)s WHERE namespace = %(namespace)s

-- name: rewind_mark
UPDATE dag_rollup_marks SET rolled_up_to = %(since)s::timestamptz - interval '1 microsecond'
WHERE namespace = %(namespace)s

-- name: add_jobs
INSERT INTO dag_job_rollups AS r (namespace, starts_at, span_hours, workflow_id, status, bucket, jobs, duration_ms)
SELECT
    %(namespace)s::text, date_trunc('hour', completed_at, 'UTC'), 1, workflow_id, status,
    CASE status WHEN 'completed' THEN floor(ln(GREATEST(d.ms, 1)) / ln(1.1))::int ELSE 0 END, count(*), sum(d.ms)
FROM dag_jobs,
    LATERAL (SELECT COALESCE(round(EXTRACT(EPOCH FROM completed_at - started_at) * 1000), 0)::bigint AS ms) AS d
WHERE namespace = %(namespace)s AND completed_at > %(after)s AND completed_at <= %(until)s
GROUP BY 2, 4, 5, 6
ON CONFLICT (namespace, starts_at, span_hours, workflow_id, status, bucket)
DO UPDATE SET jobs = r.jobs + EXCLUDED.jobs, duration_ms = r.duration_ms + EXCLUDED.duration_ms

-- name: add_throughput
INSERT INTO dag_throughput_rollups AS r (namespace, starts_at, jobs, duration_ms)
SELECT %(namespace)s::text, date_trunc('minute', completed_at), count(*), sum(d.ms)
FROM dag_jobs,
    LATERAL (SELECT COALESCE(round(EXTRACT(EPOCH FROM completed_at - started_at) * 1000), 0)::bigint AS ms) AS d
WHERE namespace = %(namespace)s AND completed_at > %(after)s AND completed_at <= %(until)s AND status = 'completed'
    AND completed_at > clock_timestamp() - interval '8 days'
GROUP BY 2
ON CONFLICT (namespace, starts_at)
DO UPDATE SET jobs = r.jobs + EXCLUDED.jobs, duration_ms = r.duration_ms + EXCLUDED.duration_ms

-- name: add_nodes
-- What was taken over from an earlier job did not run in this one.
INSERT INTO dag_node_rollups AS r (
    namespace, workflow_id, starts_at, span_hours, node_id, is_child, status, bucket, nodes, duration_ms, retries
)
SELECT
    %(namespace)s::text, j.workflow_id, date_trunc('hour', j.completed_at, 'UTC'), 1,
    COALESCE(n.parent_node_id, n.node_id), n.parent_node_id IS NOT NULL, n.status,
    floor(ln(GREATEST(d.ms, 1)) / ln(1.1))::int, count(*), sum(d.ms), sum(n.retry_count)
FROM dag_jobs AS j
JOIN dag_node_states AS n ON n.job_id = j.job_id,
    LATERAL (
        SELECT GREATEST(0, COALESCE(round(EXTRACT(EPOCH FROM
            n.completed_at - COALESCE(n.started_at, n.dispatched_at, n.ready_at)) * 1000), 0))::bigint AS ms
    ) AS d
WHERE j.namespace = %(namespace)s AND j.completed_at > %(after)s AND j.completed_at <= %(until)s
    AND n.status IN ('completed', 'failed') AND n.reused_task_id IS NULL
GROUP BY 2, 3, 5, 6, 7, 8
ON CONFLICT (namespace, workflow_id, starts_at, span_hours, node_id, is_child, status, bucket)
DO UPDATE SET nodes = r.nodes + EXCLUDED.nodes, duration_ms = r.duration_ms + EXCLUDED.duration_ms,
    retries = r.retries + EXCLUDED.retries

-- name: add_failures
-- Errors may each be one of a kind: the most frequent of a slice keep their words, the rest are counted together.
INSERT INTO dag_failure_rollups AS r (namespace, starts_at, span_hours, workflow_id, node_id, error, failures, last_at)
WITH failed AS (
    SELECT j.job_id, j.workflow_id, j.completed_at, j.error_message FROM dag_jobs AS j
    WHERE j.namespace = %(namespace)s AND j.completed_at > %(after)s AND j.completed_at <= %(until)s
        AND j.status = 'failed'
),
told AS (
    SELECT f.workflow_id, f.completed_at, COALESCE(n.parent_node_id, n.node_id, '') AS node_id,
        left(COALESCE(n.error_message, f.error_message, ''), 200) AS error
    FROM failed AS f
    LEFT JOIN dag_node_states AS n ON n.job_id = f.job_id AND n.status = 'failed'
),
ranked AS (
    SELECT
        workflow_id, date_trunc('hour', completed_at, 'UTC') AS starts_at, node_id, error, count(*) AS failures,
        max(completed_at) AS last_at,
        row_number() OVER (
            PARTITION BY workflow_id, date_trunc('hour', completed_at, 'UTC') ORDER BY count(*) DESC, node_id, error
        ) AS place
    FROM told
    GROUP BY 1, 2, 3, 4
)
SELECT
    %(namespace)s::text, starts_at, 1, workflow_id, node_id,
    CASE WHEN place <= %(most_errors)s THEN error ELSE %(other_errors)s END, sum(failures), max(last_at)
FROM ranked
GROUP BY 2, 4, 5, 6
ON CONFLICT (namespace, starts_at, span_hours, workflow_id, node_id, error)
DO UPDATE SET failures = r.failures + EXCLUDED.failures, last_at = GREATEST(r.last_at, EXCLUDED.last_at)

-- name: late_hour
-- The first of the last hours in which more jobs are finished than were summed up: some were committed late.
SELECT h.starts_at
FROM generate_series(
    date_trunc('hour', clock_timestamp(), 'UTC') - %(hours)s * interval '1 hour',
    date_trunc('hour', clock_timestamp(), 'UTC'), interval '1 hour'
) AS h (starts_at)
WHERE (
    SELECT count(*) FROM dag_jobs AS j
    WHERE j.namespace = %(namespace)s AND j.completed_at >= h.starts_at
        AND j.completed_at < h.starts_at + interval '1 hour' AND j.completed_at <= %(mark)s
) > COALESCE((
    SELECT sum(r.jobs) FROM dag_job_rollups AS r
    WHERE r.namespace = %(namespace)s AND r.starts_at = h.starts_at AND r.span_hours = 1
), 0)
ORDER BY h.starts_at
LIMIT 1

-- name: forget_jobs_from
DELETE FROM dag_job_rollups WHERE namespace = %(namespace)s AND starts_at >= %(since)s AND span_hours = 1

-- name: forget_throughput_from
DELETE FROM dag_throughput_rollups WHERE namespace = %(namespace)s AND starts_at >= %(since)s

-- name: forget_nodes_from
DELETE FROM dag_node_rollups WHERE namespace = %(namespace)s AND starts_at >= %(since)s AND span_hours = 1

-- name: forget_failures_from
DELETE FROM dag_failure_rollups WHERE namespace = %(namespace)s AND starts_at >= %(since)s AND span_hours = 1

-- name: fold_jobs
-- Hours of the days before yesterday become days.
WITH gone AS (
    DELETE FROM dag_job_rollups
    WHERE namespace = %(namespace)s AND span_hours = 1
        AND starts_at < date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day'
    RETURNING *
)
INSERT INTO dag_job_rollups AS r (namespace, starts_at, span_hours, workflow_id, status, bucket, jobs, duration_ms)
SELECT namespace, date_trunc('day', starts_at, 'UTC'), 24, workflow_id, status, bucket, sum(jobs), sum(duration_ms)
FROM gone
GROUP BY 1, 2, 4, 5, 6
ON CONFLICT (namespace, starts_at, span_hours, workflow_id, status, bucket)
DO UPDATE SET jobs = r.jobs + EXCLUDED.jobs, duration_ms = r.duration_ms + EXCLUDED.duration_ms

-- name: fold_nodes
WITH gone AS (
    DELETE FROM dag_node_rollups
    WHERE namespace = %(namespace)s AND span_hours = 1
        AND starts_at < date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day'
    RETURNING *
)
INSERT INTO dag_node_rollups AS r (
    namespace, workflow_id, starts_at, span_hours, node_id, is_child, status, bucket, nodes, duration_ms, retries
)
SELECT
    namespace, workflow_id, date_trunc('day', starts_at, 'UTC'), 24, node_id, is_child, status, bucket, sum(nodes),
    sum(duration_ms), sum(retries)
FROM gone
GROUP BY 1, 2, 3, 5, 6, 7, 8
ON CONFLICT (namespace, workflow_id, starts_at, span_hours, node_id, is_child, status, bucket)
DO UPDATE SET nodes = r.nodes + EXCLUDED.nodes, duration_ms = r.duration_ms + EXCLUDED.duration_ms,
    retries = r.retries + EXCLUDED.retries

-- name: fold_failures
WITH gone AS (
    DELETE FROM dag_failure_rollups
    WHERE namespace = %(namespace)s AND span_hours = 1
        AND starts_at < date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day'
    RETURNING *
),
ranked AS (
    SELECT
        namespace, date_trunc('day', starts_at, 'UTC') AS day, workflow_id, node_id, error, sum(failures) AS failures,
        max(last_at) AS last_at,
        row_number() OVER (
            PARTITION BY namespace, date_trunc('day', starts_at, 'UTC'), workflow_id ORDER BY sum(failures) DESC, error
        ) AS place
    FROM gone
    GROUP BY 1, 2, 3, 4, 5
)
INSERT INTO dag_failure_rollups AS r (namespace, starts_at, span_hours, workflow_id, node_id, error, failures, last_at)
SELECT
    namespace, day, 24, workflow_id, node_id,
    CASE WHEN place <= %(most_errors)s THEN error ELSE %(other_errors)s END, sum(failures), max(last_at)
FROM ranked
GROUP BY 1, 2, 4, 5, 6
ON CONFLICT (namespace, starts_at, span_hours, workflow_id, node_id, error)
DO UPDATE SET failures = r.failures + EXCLUDED.failures, last_at = GREATEST(r.last_at, EXCLUDED.last_at)

-- name: expire_jobs
DELETE FROM dag_job_rollups
WHERE namespace = %(namespace)s AND starts_at < clock_timestamp() - %(days)s * interval '1 day'

-- name: expire_nodes
DELETE FROM dag_node_rollups
WHERE namespace = %(namespace)s AND starts_at < clock_timestamp() - %(days)s * interval '1 day'

-- name: expire_failures
DELETE FROM dag_failure_rollups
WHERE namespace = %(namespace)s AND starts_at < clock_timestamp() - %(days)s * interval '1 day'

-- name: expire_throughput
DELETE FROM dag_throughput_rollups
WHERE namespace = %(namespace)s AND starts_at < clock_timestamp() - interval '8 days'
