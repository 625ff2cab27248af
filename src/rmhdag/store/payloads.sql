-- name: insert_payload
INSERT INTO dag_payloads (namespace, sha256, chunk_index, chunk_count, size_bytes, media_type, data)
VALUES (%(namespace)s, %(sha256)s, %(chunk_index)s, %(chunk_count)s, %(size_bytes)s, %(media_type)s, %(data)s)
ON CONFLICT DO NOTHING

-- name: insert_upload
-- Sent again, the chunk replaces what was sent before: nobody has seen it yet.
INSERT INTO dag_payloads (namespace, sha256, chunk_index, chunk_count, size_bytes, media_type, data)
VALUES (%(namespace)s, %(upload)s, %(chunk_index)s, %(chunk_count)s, 0, 'unfinished', %(data)s)
ON CONFLICT (namespace, sha256, chunk_index) DO UPDATE SET data = EXCLUDED.data, created_at = clock_timestamp()

-- name: finish_upload
-- The rows get their name; the data itself is not written again.
UPDATE dag_payloads
SET sha256 = %(sha256)s, chunk_count = %(chunk_count)s, size_bytes = %(size_bytes)s, media_type = %(media_type)s,
    created_at = clock_timestamp()
WHERE namespace = %(namespace)s AND sha256 = %(upload)s

-- name: remove_upload
DELETE FROM dag_payloads WHERE namespace = %(namespace)s AND sha256 = %(upload)s

-- name: remove_old_uploads
DELETE FROM dag_payloads WHERE media_type = 'unfinished' AND created_at < clock_timestamp() - interval '1 day'

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
-- The output of a task that is stored apart is nothing but its reference; elsewhere references stand somewhere inside.
SELECT EXISTS (
    SELECT FROM dag_jobs
    WHERE job_id = %(job_id)s AND namespace = %(namespace)s
        AND jsonb_path_exists(
            jsonb_build_array(result_data, input_params), '$.**.sha256 ? (@ == $wanted)',
            jsonb_build_object('wanted', %(sha256)s::text)
        )
) OR EXISTS (
    SELECT FROM dag_node_states AS n
    LEFT JOIN dag_task_results AS r
        ON r.task_id = COALESCE(n.reused_task_id, n.task_id) AND r.status IN ('completed', 'failed', 'cancelled')
    WHERE n.job_id = %(job_id)s
        AND (
            r.output->>'sha256' = %(sha256)s
            OR jsonb_path_exists(
                n.output, '$.**.sha256 ? (@ == $wanted)', jsonb_build_object('wanted', %(sha256)s::text)
            )
        )
)
