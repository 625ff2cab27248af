-- name: insert_payload
INSERT INTO dag_payloads (namespace, sha256, chunk_index, chunk_count, size_bytes, media_type, data)
VALUES (%(namespace)s, %(sha256)s, %(chunk_index)s, %(chunk_count)s, %(size_bytes)s, %(media_type)s, %(data)s)
ON CONFLICT DO NOTHING

-- name: read_payload
SELECT data FROM dag_payloads WHERE namespace = %(namespace)s AND sha256 = %(sha256)s ORDER BY chunk_index
