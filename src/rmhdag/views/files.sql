-- name: file
SELECT blob_id, zone, container, path, size_bytes, sha256, role, media_type, state, job_id, node_id, created_at
FROM dag_blob_assets
WHERE namespace = %(namespace)s AND blob_id = %(blob_id)s

-- name: thumbnail
-- Of a revision with several, that of the first item.
SELECT blob_id, zone, container, path, size_bytes, sha256, role, media_type, state, job_id, node_id, created_at
FROM dag_blob_assets
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND role = 'thumbnail'
    AND state = 'present'
ORDER BY path
LIMIT 1

-- name: has_revision
SELECT 1 FROM dag_asset_revisions
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s

-- name: job_files
SELECT blob_id, zone, container, path, size_bytes, sha256, role, media_type, state, job_id, node_id, created_at
FROM dag_blob_assets
WHERE namespace = %(namespace)s AND job_id = %(job_id)s AND blob_id > %(after)s
ORDER BY blob_id
LIMIT %(limit)s

-- name: revision_items
SELECT collection_id, item_id, node_id, created_at, body
FROM dag_revision_items
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s
    AND (collection_id, item_id) > (%(after_collection)s, %(after_item)s)
ORDER BY collection_id, item_id
LIMIT %(limit)s

-- name: job_items
-- Of a revision or of none.
SELECT collection_id, item_id, node_id, created_at, body FROM (
    SELECT collection_id, item_id, node_id, created_at, body
    FROM dag_revision_items
    WHERE job_id = %(job_id)s AND namespace = %(namespace)s
    UNION ALL
    SELECT collection_id, item_id, node_id, created_at, body
    FROM dag_catalogue_entries
    WHERE job_id = %(job_id)s AND namespace = %(namespace)s AND asset_id IS NULL AND item_id <> '' AND NOT removed
) AS i
WHERE (collection_id, item_id) > (%(after_collection)s, %(after_item)s)
ORDER BY collection_id, item_id
LIMIT %(limit)s

-- name: files_at
-- The files at these paths that belong to the same revision or job.
SELECT blob_id, zone, container, path, size_bytes, sha256, role, media_type, state, job_id, node_id, created_at
FROM dag_blob_assets
WHERE namespace = %(namespace)s AND path = ANY(%(paths)s) AND state = 'present'
    AND (
        (asset_id = %(asset_id)s AND revision = %(revision)s)
        OR (%(job_id)s::text IS NOT NULL AND job_id = %(job_id)s)
    )
