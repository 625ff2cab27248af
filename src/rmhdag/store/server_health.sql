-- name: server
-- Our own question is not counted; background processes hold no locks that hurt us for long.
SELECT
    count(*) FILTER (WHERE backend_type = 'client backend') AS connections,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS max_connections,
    COALESCE(max(EXTRACT(EPOCH FROM clock_timestamp() - xact_start)) FILTER (WHERE is_ours), 0)::float8
        AS oldest_transaction_seconds,
    COALESCE(max(EXTRACT(EPOCH FROM clock_timestamp() - state_change)) FILTER (
        WHERE is_ours AND state LIKE 'idle in transaction%%'), 0)::float8 AS idle_in_transaction_seconds,
    count(*) FILTER (
        WHERE is_ours AND wait_event_type = 'Lock' AND state_change < clock_timestamp() - interval '2 seconds'
    ) AS blocked,
    (SELECT age(datfrozenxid)::bigint FROM pg_database WHERE datname = current_database()) AS transaction_age,
    current_setting('fsync')::boolean AS is_durable
FROM (
    SELECT *, datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AS is_ours
    FROM pg_stat_activity
) AS activity

-- name: dead_rows
-- The worst table; churning ones always have some.
SELECT relname, n_dead_tup, n_live_tup
FROM pg_stat_user_tables
WHERE schemaname = current_schema()
ORDER BY n_dead_tup - n_live_tup DESC
LIMIT 1

-- name: backlogs
-- Counts end at 10,000: more is only more.
SELECT
    (SELECT count(*) FROM (SELECT FROM dag_inbox LIMIT 10000) AS i) AS inbox_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(created_at))::float8 FROM (
        SELECT created_at FROM dag_inbox ORDER BY owner_id, inbox_id LIMIT 10000) AS i) AS inbox_seconds,
    (SELECT count(*) FROM (SELECT FROM dag_outbox WHERE status = 'pending' LIMIT 10000) AS o) AS outbox_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(created_at))::float8 FROM (
        SELECT created_at FROM dag_outbox WHERE status = 'pending' ORDER BY next_attempt_at LIMIT 10000) AS o)
        AS outbox_seconds,
    -- A callback may wait for a day between two tries: late is only what is due.
    (SELECT count(*) FROM (SELECT FROM dag_callbacks WHERE status = 'pending' LIMIT 10000) AS c) AS callback_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - next_attempt_at)::float8 FROM dag_callbacks
        WHERE status = 'pending' AND next_attempt_at < clock_timestamp()
        ORDER BY next_attempt_at LIMIT 1) AS callback_seconds,
    (SELECT count(*) FROM (SELECT FROM dag_service_calls WHERE status = 'pending' LIMIT 10000) AS c) AS service_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - next_attempt_at)::float8 FROM dag_service_calls
        WHERE status = 'pending' AND next_attempt_at < clock_timestamp()
        ORDER BY next_attempt_at LIMIT 1) AS service_seconds,
    (SELECT count(*) FROM (
        SELECT FROM dag_file_deletions WHERE status IN ('pending', 'deleting') LIMIT 10000) AS d) AS deletion_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - next_attempt_at)::float8 FROM dag_file_deletions
        WHERE status IN ('pending', 'deleting') AND next_attempt_at < clock_timestamp()
        ORDER BY next_attempt_at LIMIT 1) AS deletion_seconds,
    (SELECT count(*) FROM (SELECT FROM dag_table_places WHERE status = 'pending' LIMIT 10000) AS p) AS place_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - next_attempt_at)::float8 FROM dag_table_places
        WHERE status = 'pending' AND next_attempt_at < clock_timestamp()
        ORDER BY next_attempt_at LIMIT 1) AS place_seconds,
    (SELECT count(*) FROM (SELECT FROM dag_data_tables WHERE state = 'dropping' LIMIT 10000) AS t) AS drop_rows,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - next_attempt_at)::float8 FROM dag_data_tables
        WHERE state = 'dropping' AND next_attempt_at < clock_timestamp()
        ORDER BY next_attempt_at LIMIT 1) AS drop_seconds,
    (SELECT count(*) FROM dag_table_places WHERE status = 'dead' AND namespace = %(namespace)s) AS dead_places,
    (SELECT table_name || ': ' || last_error FROM dag_table_places
        WHERE status = 'dead' AND namespace = %(namespace)s ORDER BY changed_at DESC LIMIT 1) AS dead_place,
    (SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(created_at))::float8 FROM (
        SELECT created_at FROM dag_jobs
        WHERE owner_id IS NULL AND completed_at IS NULL ORDER BY owner_id, job_id LIMIT 1000) AS j) AS unclaimed_seconds,
    (SELECT count(*) FROM dag_dead_letters WHERE settled_at IS NULL AND namespace = %(namespace)s) AS dead_letters

-- name: schema_version
SELECT schema_version, oldest_code_version FROM dag_schema_meta
