-- name: revisions_of_jobs
-- And the revision that a child job works for, with the job that makes it and that job's node.
WITH RECURSIVE ancestors AS (
    SELECT job_id AS child_id, asset_id, revision, job_id, parent_job_id, parent_node_id, NULL::varchar COLLATE "C" AS node_id
    FROM dag_jobs WHERE job_id = ANY(%(jobs)s)
    UNION ALL
    SELECT a.child_id, p.asset_id, p.revision, p.job_id, p.parent_job_id, p.parent_node_id, a.parent_node_id
    FROM ancestors AS a
    JOIN dag_jobs AS p ON p.job_id = a.parent_job_id
    WHERE a.revision IS NULL
)
SELECT j.job_id, j.namespace, j.asset_id, j.revision, a.asset_id, a.revision, a.job_id, a.node_id
FROM dag_jobs AS j
LEFT JOIN ancestors AS a ON a.child_id = j.job_id AND a.revision IS NOT NULL
WHERE j.job_id = ANY(%(jobs)s)

-- name: put_blobs
-- 0 blob_id, 1 namespace, 2 zone, 3 container, 4 path, 5 size_bytes, 6 sha256, 7 role, 8 media_type, 9 asset_id,
-- 10 revision, 11 job_id, 12 node_id
INSERT INTO dag_blob_assets AS b (
    blob_id, namespace, zone, container, path, size_bytes, sha256, role, media_type, asset_id, revision, job_id, node_id
)
SELECT
    r->>0, r->>1, (r->>2)::zone, r->>3, r->>4, (r->>5)::bigint, r->>6, r->>7, r->>8, r->>9, (r->>10)::int, r->>11, r->>12
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>0
ON CONFLICT (blob_id) DO UPDATE SET
    size_bytes = EXCLUDED.size_bytes, sha256 = EXCLUDED.sha256, media_type = EXCLUDED.media_type,
    node_id = EXCLUDED.node_id, state = 'present', deleted_at = NULL

-- name: put_lineage
-- 0 ref_id, 1 namespace, 2 asset_id, 3 revision, 4 job_id, 5 node_id, 6 role, 7 source_asset_id, 8 source_revision,
-- 9 source_url
INSERT INTO dag_dataset_refs (
    ref_id, namespace, asset_id, revision, job_id, node_id, role, source_asset_id, source_revision, source_url
)
SELECT r->>0, r->>1, r->>2, (r->>3)::int, r->>4, r->>5, r->>6, r->>7, (r->>8)::int, r->>9
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>0
ON CONFLICT (ref_id) DO NOTHING

-- name: put_promotions
-- 0 namespace, 1 asset_id, 2 revision, 3 target, 4 url
INSERT INTO dag_promoted (namespace, asset_id, revision, target, url)
SELECT r->>0, r->>1, (r->>2)::int, r->>3, r->>4
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>1, r->>2, r->>3
ON CONFLICT (namespace, asset_id, revision, target) DO UPDATE SET url = EXCLUDED.url, promoted_at = clock_timestamp()

-- name: put_approvals
-- 0 approval_id, 1 namespace, 2 asset_id, 3 revision, 4 content_hash, 5 requested_by, 6 message
INSERT INTO dag_approvals (approval_id, namespace, asset_id, revision, content_hash, requested_by, message)
SELECT r->>0, r->>1, r->>2, (r->>3)::int, r->>4, r->>5, r->>6
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>0
ON CONFLICT (approval_id) DO NOTHING

-- name: put_entries
-- Collections, and items of jobs that make no revision. Locked in the order of their keys, so that two who publish the
-- same items do not deadlock. An entry that has not changed keeps its version but is written again: its file may be lost,
-- which the entry does not know. An item that an asset shows stays the asset's: a job without an asset only repairs it.
-- 0 collection_id, 1 item_id, 2 namespace, 3 removed, 4 body, 5 job_id, 6 node_id
INSERT INTO dag_catalogue_entries AS e (collection_id, item_id, namespace, removed, body, job_id, node_id)
SELECT r->>0, r->>1, r->>2, (r->>3)::boolean, r->4, r->>5, r->>6
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY (r->>2) COLLATE "C", (r->>0) COLLATE "C", (r->>1) COLLATE "C"
ON CONFLICT (namespace, collection_id, item_id) DO UPDATE SET
    version = CASE WHEN (e.body, e.removed) = (EXCLUDED.body, EXCLUDED.removed) THEN e.version ELSE e.version + 1 END,
    status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(),
    lease_epoch = e.lease_epoch + 1, last_error = NULL, removed = EXCLUDED.removed, body = EXCLUDED.body,
    (asset_id, revision, job_id, node_id) = (
        SELECT (o).asset_id, (o).revision, (o).job_id, (o).node_id
        FROM (SELECT CASE WHEN e.asset_id IS NOT NULL AND NOT e.removed THEN e ELSE EXCLUDED END) AS whose (o)
    )

-- name: take_over_blobs
-- What a rerun does not do again belongs to its revision as well; ids as rmhdag.models.ids.blob_id_of makes them.
INSERT INTO dag_blob_assets (
    blob_id, namespace, zone, container, path, size_bytes, sha256, role, media_type, asset_id, revision, job_id, node_id,
    state, deleted_at
)
SELECT
    encode(sha256(
        convert_to(j.job_id, 'UTF8') || '\x00' || convert_to(b.zone::text, 'UTF8') || '\x00'
        || convert_to(b.container, 'UTF8') || '\x00' || convert_to(b.path, 'UTF8') || '\x00' || convert_to(b.role, 'UTF8')
    ), 'hex'),
    b.namespace, b.zone, b.container, b.path, b.size_bytes, b.sha256, b.role, b.media_type,
    CASE WHEN j.revision IS NOT NULL THEN j.asset_id END, j.revision, j.job_id, b.node_id, b.state, b.deleted_at
FROM dag_jobs AS j
JOIN dag_blob_assets AS b ON b.job_id = j.rerun_of
WHERE j.job_id = %(job_id)s
    AND (b.node_id = ANY(%(nodes)s) OR regexp_replace(b.node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s))
ON CONFLICT (blob_id) DO NOTHING

-- name: take_over_lineage
-- Ids as rmhdag.models.ids.lineage_id_of makes them.
INSERT INTO dag_dataset_refs (
    ref_id, namespace, asset_id, revision, job_id, node_id, role, source_asset_id, source_revision, source_url
)
SELECT
    encode(sha256(
        convert_to(j.job_id, 'UTF8') || '\x00' || convert_to(d.role, 'UTF8') || '\x00'
        || convert_to(COALESCE(d.source_url, d.source_asset_id || '/' || d.source_revision), 'UTF8')
    ), 'hex'),
    d.namespace, CASE WHEN j.revision IS NOT NULL THEN j.asset_id END, j.revision, j.job_id, d.node_id, d.role,
    d.source_asset_id, d.source_revision, d.source_url
FROM dag_jobs AS j
JOIN dag_dataset_refs AS d ON d.job_id = j.rerun_of
WHERE j.job_id = %(job_id)s
    AND (d.node_id = ANY(%(nodes)s) OR regexp_replace(d.node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s))
ON CONFLICT (ref_id) DO NOTHING

-- name: take_over_entries
-- Of a job that makes no revision, and collections: the catalogue shows them already, only whose they are changes.
UPDATE dag_catalogue_entries AS e
SET job_id = j.job_id
FROM dag_jobs AS j
WHERE j.job_id = %(job_id)s AND e.job_id = j.rerun_of AND e.asset_id IS NULL
    AND (e.node_id = ANY(%(nodes)s) OR regexp_replace(e.node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s))
