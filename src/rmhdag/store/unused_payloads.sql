-- name: next_payloads
-- A page of all payloads in the order of their key, and whether each may go.
SELECT
    p.namespace, p.sha256, p.size_bytes,
    p.has_recorded_uses AND p.created_at < clock_timestamp() - %(days)s * interval '1 day'
    AND NOT EXISTS (SELECT FROM dag_payload_uses AS u WHERE u.namespace = p.namespace AND u.sha256 = p.sha256)
FROM dag_payloads AS p
WHERE p.chunk_index = 0 AND (p.namespace, p.sha256) > (%(namespace)s::text, %(sha256)s::text)
ORDER BY p.namespace, p.sha256
LIMIT %(limit)s

-- name: lock_payloads
-- A process that is about to use one renews its time under this lock.
SELECT p.namespace, p.sha256
FROM unnest(%(namespaces)s::text[], %(digests)s::text[]) AS w (namespace, sha256)
JOIN dag_payloads AS p ON p.namespace = w.namespace AND p.sha256 = w.sha256 AND p.chunk_index = 0
ORDER BY p.namespace, p.sha256
FOR UPDATE OF p SKIP LOCKED

-- name: delete_payloads_if_unused
-- Asked again under the lock. What a payload itself refers to is used by one less.
WITH unused AS (
    SELECT p.namespace, p.sha256
    FROM unnest(%(namespaces)s::text[], %(digests)s::text[]) AS w (namespace, sha256)
    JOIN dag_payloads AS p ON p.namespace = w.namespace AND p.sha256 = w.sha256 AND p.chunk_index = 0
    WHERE p.has_recorded_uses AND p.created_at < clock_timestamp() - %(days)s * interval '1 day'
        AND NOT EXISTS (SELECT FROM dag_payload_uses AS u WHERE u.namespace = p.namespace AND u.sha256 = p.sha256)
),
given_up AS (
    DELETE FROM dag_payload_uses AS u
    USING unused
    WHERE u.holder = 'payload:' || unused.sha256 AND u.namespace = unused.namespace
)
DELETE FROM dag_payloads AS p
USING unused
WHERE p.namespace = unused.namespace AND p.sha256 = unused.sha256

-- name: delete_old_uploads
DELETE FROM dag_payloads AS p
USING (
    SELECT o.namespace, o.sha256, o.chunk_index FROM dag_payloads AS o
    WHERE o.media_type = 'unfinished' AND o.created_at < clock_timestamp() - %(days)s * interval '1 day'
    ORDER BY o.created_at
    LIMIT %(limit)s
) AS bite
WHERE p.namespace = bite.namespace AND p.sha256 = bite.sha256 AND p.chunk_index = bite.chunk_index
    AND p.media_type = 'unfinished'
