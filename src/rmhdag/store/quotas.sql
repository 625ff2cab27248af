-- name: note_namespaces
-- Every namespace that has a valid key or a job that has not ended; from one namespace to the next, however many jobs.
WITH RECURSIVE working (namespace) AS (
    (
        SELECT namespace FROM dag_jobs WHERE completed_at IS NULL ORDER BY namespace, created_at, job_id LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.namespace FROM dag_jobs AS j
        WHERE j.completed_at IS NULL AND j.namespace > w.namespace
        ORDER BY j.namespace, j.created_at, j.job_id
        LIMIT 1
    )
    FROM working AS w
    WHERE w.namespace IS NOT NULL
)
INSERT INTO dag_namespaces (namespace)
SELECT found.namespace
FROM (
    SELECT namespace FROM working WHERE namespace IS NOT NULL
    UNION
    SELECT DISTINCT namespace FROM dag_api_keys
    WHERE kind = 'key' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
) AS found
WHERE NOT EXISTS (SELECT FROM dag_namespaces AS n WHERE n.namespace = found.namespace)
ON CONFLICT DO NOTHING

-- name: running_tasks
-- What shared workers hold of each namespace, how many slots that may occupy, and the slots that they have. A namespace
-- without keys and open jobs needs no slot kept free for it.
SELECT n.namespace, n.quotas, n.is_watched, n.running_tasks, n.running_share, COALESCE(h.tasks, 0), COALESCE(h.slots, 0), (
    SELECT COALESCE(sum(slots), 0) FROM dag_workers WHERE serves_namespace IS NULL
), EXISTS (SELECT FROM dag_jobs AS j WHERE j.namespace = n.namespace AND j.completed_at IS NULL) OR EXISTS (
    SELECT FROM dag_api_keys AS k
    WHERE k.namespace = n.namespace AND k.kind = 'key' AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
)
FROM dag_namespaces AS n
LEFT JOIN (
    SELECT o.namespace, sum(o.tasks)::bigint AS tasks, sum(LEAST(w.slots, o.tasks))::bigint AS slots
    FROM (
        SELECT q.namespace, q.worker_id, count(*) AS tasks
        FROM dag_queue_messages AS q
        WHERE q.worker_id IS NOT NULL
        GROUP BY q.namespace, q.worker_id
    ) AS o
    JOIN dag_workers AS w ON w.worker_id = o.worker_id AND w.serves_namespace IS NULL
    GROUP BY o.namespace
) AS h ON h.namespace = n.namespace
ORDER BY n.namespace

-- name: watch_namespace
UPDATE dag_namespaces
SET is_watched = %(is_watched)s, running_tasks = %(running_tasks)s, running_share = %(running_share)s
WHERE namespace = %(namespace)s

-- name: find_namespace
SELECT quotas, used, counted_at FROM dag_namespaces WHERE namespace = %(namespace)s

-- name: list_namespaces
SELECT namespace, quotas, used, counted_at FROM dag_namespaces ORDER BY namespace

-- name: set_quotas
-- null takes the namespace's own value away.
INSERT INTO dag_namespaces (namespace, quotas, changed_by)
VALUES (%(namespace)s, jsonb_strip_nulls(%(quotas)s::jsonb), %(changed_by)s)
ON CONFLICT (namespace) DO UPDATE
SET quotas = jsonb_strip_nulls(dag_namespaces.quotas || %(quotas)s::jsonb), changed_by = EXCLUDED.changed_by
RETURNING quotas

-- name: count_open_jobs
-- Counting stops at the limit.
SELECT count(*) FROM (
    SELECT FROM dag_jobs WHERE namespace = %(namespace)s AND completed_at IS NULL LIMIT %(limit)s
) AS found

-- name: count_running
SELECT count(*) FROM dag_queue_messages AS q
JOIN dag_workers AS w ON w.worker_id = q.worker_id AND w.serves_namespace IS NULL
WHERE q.worker_id IS NOT NULL AND q.namespace = %(namespace)s

-- name: count_workflows
SELECT count(DISTINCT workflow_id) FROM dag_workflows WHERE namespace = %(namespace)s

-- name: count_handlers
SELECT count(*) FROM dag_namespace_handlers WHERE namespace = %(namespace)s

-- name: count_keys
SELECT count(*) FROM dag_api_keys
WHERE namespace = %(namespace)s AND kind = 'key' AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > clock_timestamp())

-- name: unfinished_bytes
SELECT COALESCE(sum(octet_length(data)), 0)::bigint FROM dag_payloads
WHERE namespace = %(namespace)s AND media_type = 'unfinished'

-- name: counting_due
SELECT COALESCE(max(counted_at) < clock_timestamp() - %(seconds)s * interval '1 second', true)::int FROM dag_namespaces

-- name: count_stored
-- Sizes on disk, which PostgreSQL knows without reading the values.
SELECT
    n.namespace,
    (SELECT count(*) FROM dag_jobs AS j WHERE j.namespace = n.namespace AND j.completed_at IS NULL),
    COALESCE(j.bytes, 0) + COALESCE(p.bytes, 0),
    COALESCE(p.unfinished, 0)
FROM dag_namespaces AS n
LEFT JOIN (
    SELECT namespace, sum(
        pg_column_size(input_params) + pg_column_size(metadata) + COALESCE(pg_column_size(result_data), 0)
    )::bigint AS bytes
    FROM dag_jobs
    GROUP BY namespace
) AS j ON j.namespace = n.namespace
LEFT JOIN (
    SELECT namespace, sum(pg_column_size(data))::bigint AS bytes,
        COALESCE(sum(pg_column_size(data)) FILTER (WHERE media_type = 'unfinished'), 0)::bigint AS unfinished
    FROM dag_payloads
    GROUP BY namespace
) AS p ON p.namespace = n.namespace

-- name: note_used
UPDATE dag_namespaces SET used = %(used)s, counted_at = clock_timestamp() WHERE namespace = %(namespace)s

-- name: hold_additions
SELECT pg_advisory_xact_lock(
    hashtextextended('rmhdag additions ' || current_schema() || ' ' || %(namespace)s::text, 0)
)
