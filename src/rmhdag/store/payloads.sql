-- name: insert_payload
INSERT INTO dag_payloads (
    namespace, sha256, chunk_index, chunk_count, size_bytes, media_type, has_recorded_uses, data
)
VALUES (%(namespace)s, %(sha256)s, %(chunk_index)s, %(chunk_count)s, %(size_bytes)s, %(media_type)s, true, %(data)s)
ON CONFLICT DO NOTHING

-- name: renew_payload
-- Its age starts again: a removal that waits for this lock then finds it too young. Not more often than it must, for
-- many may refer to one payload at once.
UPDATE dag_payloads SET created_at = clock_timestamp()
WHERE namespace = %(namespace)s AND sha256 = %(sha256)s AND chunk_index = 0 AND media_type <> 'unfinished'
    AND created_at < clock_timestamp() - interval '1 minute'

-- name: add_uses
INSERT INTO dag_payload_uses (namespace, sha256, holder)
SELECT %(namespace)s, u.sha256, %(holder)s FROM unnest(%(digests)s::text[]) AS u (sha256)
ON CONFLICT DO NOTHING

-- name: copy_uses
INSERT INTO dag_payload_uses (namespace, sha256, holder)
SELECT namespace, sha256, %(to_holder)s FROM dag_payload_uses
WHERE holder = %(from_holder)s AND namespace = %(namespace)s
ORDER BY sha256
ON CONFLICT DO NOTHING

-- name: use_reported
-- A task that is gone by now is nobody's: its report will be refused as stale.
INSERT INTO dag_payload_uses (namespace, sha256, holder)
SELECT DISTINCT q.namespace, r.sha256, q.job_id
FROM unnest(%(tasks)s::text[], %(digests)s::text[]) AS r (task_id, sha256)
JOIN dag_queue_messages AS q ON q.task_id = r.task_id AND q.namespace = %(namespace)s
ORDER BY r.sha256
ON CONFLICT DO NOTHING

-- name: insert_upload
-- Sent again, the chunk replaces what was sent before: nobody has seen it yet. Nothing is written if the namespace has
-- too much that is not finished; there are few such rows, and their sizes are known without reading them.
WITH given AS (
    SELECT %(data)s::bytea AS data
)
INSERT INTO dag_payloads (namespace, sha256, chunk_index, chunk_count, size_bytes, media_type, data)
SELECT %(namespace)s::text, %(upload)s::text, %(chunk_index)s::int, %(chunk_count)s::int, 0, 'unfinished', g.data
FROM given AS g
WHERE octet_length(g.data) + (
    SELECT COALESCE(sum(octet_length(p.data)), 0)
    FROM dag_payloads AS p
    WHERE p.media_type = 'unfinished' AND p.namespace = %(namespace)s::text
        AND (p.sha256, p.chunk_index) <> (%(upload)s::text, %(chunk_index)s::int)
) <= %(most_bytes)s::bigint
ON CONFLICT (namespace, sha256, chunk_index) DO UPDATE SET data = EXCLUDED.data, created_at = clock_timestamp()

-- name: finish_upload
-- The rows get their name; the data itself is not written again.
UPDATE dag_payloads
SET sha256 = %(sha256)s, chunk_count = %(chunk_count)s, size_bytes = %(size_bytes)s, media_type = %(media_type)s,
    has_recorded_uses = true, created_at = clock_timestamp()
WHERE namespace = %(namespace)s AND sha256 = %(upload)s

-- name: remove_upload
DELETE FROM dag_payloads WHERE namespace = %(namespace)s AND sha256 = %(upload)s

-- name: remove_old_uploads
DELETE FROM dag_payloads WHERE media_type = 'unfinished' AND created_at < clock_timestamp() - interval '1 hour'

-- name: find_payload
SELECT sha256, size_bytes, media_type, chunk_count FROM dag_payloads
WHERE namespace = %(namespace)s AND sha256 = %(sha256)s AND chunk_index = 0 AND media_type <> 'unfinished'

-- name: read_chunk
SELECT data FROM dag_payloads
WHERE namespace = %(namespace)s AND sha256 = %(sha256)s AND chunk_index = %(chunk_index)s
    AND media_type <> 'unfinished'

-- name: read_payload
SELECT data FROM dag_payloads WHERE namespace = %(namespace)s AND sha256 = %(sha256)s ORDER BY chunk_index

-- name: job_refers_to
-- Upwards: a payload may be needed by another one, as a fan-in gathers references; the job needs one of these.
WITH RECURSIVE wanted (sha256, levels) AS (
    SELECT %(sha256)s::text COLLATE "C", 4
    UNION
    SELECT substr(u.holder, length('payload:') + 1), w.levels - 1
    FROM wanted AS w
    JOIN dag_payload_uses AS u
        ON u.namespace = %(namespace)s AND u.sha256 = w.sha256 AND u.holder >= 'payload:' AND u.holder < 'payload;'
    WHERE w.levels > 1
)
SELECT EXISTS (
    SELECT FROM wanted AS w
    JOIN dag_payload_uses AS u
        ON u.namespace = %(namespace)s AND u.sha256 = w.sha256 AND u.holder = %(job_id)s
)
