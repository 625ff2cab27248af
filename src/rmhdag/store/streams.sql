-- name: horizon
-- Every transaction below the first number has ended, so its rows are all here; numbers from the second on are not given
-- out yet. Behind the newest rows the planner has no statistics, and would read and sort all that follows for each page.
SELECT
    pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint,
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_sort', 'off', true)
FROM pg_current_snapshot() AS s

-- name: read_all
-- In the order of transactions, because a number that counts up would become visible out of order.
SELECT
    transaction_id, job_id, seq, namespace, created_at, event_type, event_status, node_id, task_id, duration_ms,
    error_message, event_data
FROM dag_job_events
WHERE transaction_id >= %(transaction_id)s::bigint AND transaction_id < %(horizon)s::bigint
    AND (transaction_id, job_id, seq) > (%(transaction_id)s::bigint, %(job_id)s::text, %(seq)s::bigint)
    AND (
        job_id = ANY(%(jobs)s::text[])
        OR (
            namespace = ANY(%(namespaces)s::text[])
            AND (%(event_types)s::event_type[] IS NULL OR event_type = ANY(%(event_types)s::event_type[]))
        )
    )
ORDER BY transaction_id, job_id, seq
LIMIT %(limit)s

-- name: first_from
SELECT transaction_id, created_at
FROM dag_job_events
WHERE transaction_id >= %(transaction_id)s AND transaction_id < %(horizon)s
ORDER BY transaction_id
LIMIT 1

-- name: job_state
SELECT status, completed_at IS NOT NULL FROM dag_jobs WHERE job_id = %(job_id)s AND namespace = %(namespace)s

-- name: read_jobs
-- A job's numbers become visible in their order: its owner mints them, one transaction after the other.
SELECT e.*
FROM unnest(%(jobs)s::text[], %(after)s::bigint[]) AS w (job_id, seq)
CROSS JOIN LATERAL (
    SELECT
        transaction_id, job_id, seq, namespace, created_at, event_type, event_status, node_id, task_id, duration_ms,
        error_message, event_data
    FROM dag_job_events
    WHERE job_id = w.job_id AND seq > w.seq
    ORDER BY seq
    LIMIT %(limit)s
) AS e
ORDER BY e.job_id, e.seq
