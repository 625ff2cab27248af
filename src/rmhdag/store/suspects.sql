-- name: suspect_waits
SELECT EXISTS (
    SELECT FROM dag_queue_messages
    WHERE queue = ANY(%(queues)s) AND lease_losses > 1 AND worker_id IS NULL AND available_at IS NULL
        AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
        AND (%(handlers)s::jsonb IS NULL OR jsonb_exists(%(handlers)s::jsonb, handler))
)

-- name: claim_suspect
-- One at a time. At most half of the workers are busy with suspects, or there would be nobody left for the others; a
-- single worker may be. Two that ask at the same moment may both get one: then it is one more than half, for once.
WITH served AS (
    SELECT
        count(*) AS workers,
        count(*) FILTER (WHERE EXISTS (
            SELECT FROM dag_queue_messages AS h WHERE h.worker_id = w.worker_id AND h.lease_losses > 1
        )) AS with_suspects
    FROM dag_workers AS w
    WHERE w.queues ?| %(queues)s
),
picked AS MATERIALIZED (
    SELECT task_id
    FROM dag_queue_messages
    WHERE queue = ANY(%(queues)s) AND lease_losses > 1 AND worker_id IS NULL AND available_at IS NULL
        AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
        AND (%(handlers)s::jsonb IS NULL OR jsonb_exists(%(handlers)s::jsonb, handler))
        AND (queue, namespace) NOT IN (
            SELECT f.queue, f.namespace FROM unnest(%(full_queues)s::text[], %(full_namespaces)s::text[]) AS f (queue, namespace)
        )
        AND (SELECT with_suspects * 2 < GREATEST(workers, 1) FROM served)
    ORDER BY order_key
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE dag_queue_messages AS q
SET worker_id = %(worker_id)s, claimed_at = clock_timestamp(), lease_epoch = q.lease_epoch + 1
FROM picked
WHERE q.task_id = picked.task_id
RETURNING
    q.task_id, q.job_id, q.node_id, q.queue, q.handler, q.params, q.timeout_seconds, q.attempt, q.lease_epoch,
    q.lease_losses, q.priority, q.checkpoint_phase, q.checkpoint_data, q.trace_parent, q.order_key, q.namespace
