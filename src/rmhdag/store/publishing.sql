-- name: revisions_of_jobs
SELECT job_id, namespace, asset_id, revision FROM dag_jobs WHERE job_id = ANY(%(jobs)s)

-- name: put_blobs
-- 0 blob_id, 1 namespace, 2 zone, 3 container, 4 path, 5 size_bytes, 6 sha256, 7 role, 8 media_type, 9 asset_id,
-- 10 revision, 11 job_id, 12 node_id
INSERT INTO dag_blob_assets AS b (
    blob_id, namespace, zone, container, path, size_bytes, sha256, role, media_type, asset_id, revision, job_id, node_id
)
SELECT
    r->>0, r->>1, (r->>2)::zone, r->>3, r->>4, (r->>5)::bigint, r->>6, r->>7, r->>8, r->>9, (r->>10)::int, r->>11, r->>12
FROM jsonb_array_elements(%(blobs)s::jsonb) AS r
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
FROM jsonb_array_elements(%(refs)s::jsonb) AS r
ORDER BY r->>0
ON CONFLICT (ref_id) DO NOTHING

-- name: put_promotions
-- 0 namespace, 1 asset_id, 2 revision, 3 target, 4 url
INSERT INTO dag_promoted (namespace, asset_id, revision, target, url)
SELECT r->>0, r->>1, (r->>2)::int, r->>3, r->>4
FROM jsonb_array_elements(%(promotions)s::jsonb) AS r
ORDER BY r->>1, r->>2, r->>3
ON CONFLICT (namespace, asset_id, revision, target) DO UPDATE SET url = EXCLUDED.url, promoted_at = clock_timestamp()

-- name: put_approvals
-- 0 approval_id, 1 namespace, 2 asset_id, 3 revision, 4 content_hash, 5 requested_by, 6 message
INSERT INTO dag_approvals (approval_id, namespace, asset_id, revision, content_hash, requested_by, message)
SELECT r->>0, r->>1, r->>2, (r->>3)::int, r->>4, r->>5, r->>6
FROM jsonb_array_elements(%(approvals)s::jsonb) AS r
ORDER BY r->>0
ON CONFLICT (approval_id) DO NOTHING

-- name: put_entries
-- Locked in the order of their keys, so that of two who publish the same items neither waits for the other for ever.
-- What says nothing new keeps its version and is told again: its file may be lost, which the entry does not know.
-- A revision never takes the place of a newer one.
-- A job without an asset, as one that repairs, leaves what is shown to the asset it belongs to.
-- 0 collection_id, 1 item_id, 2 namespace, 3 removed, 4 body, 5 asset_id, 6 revision, 7 job_id, 8 node_id
INSERT INTO dag_catalogue_entries AS e (
    collection_id, item_id, namespace, removed, body, asset_id, revision, job_id, node_id, status, published_version,
    published_at
)
SELECT
    r->>0, r->>1, r->>2, (r->>3)::boolean, r->4, r->>5, (r->>6)::int, r->>7, r->>8,
    CASE WHEN %(told)s THEN 'published' ELSE 'pending' END::entry_status, CASE WHEN %(told)s THEN 1 ELSE 0 END,
    CASE WHEN %(told)s THEN clock_timestamp() END
FROM jsonb_array_elements(%(entries)s::jsonb) AS r
ORDER BY (r->>0) COLLATE "C", (r->>1) COLLATE "C"
ON CONFLICT (collection_id, item_id) DO UPDATE SET
    version = CASE WHEN (e.body, e.removed) = (EXCLUDED.body, EXCLUDED.removed) THEN e.version ELSE e.version + 1 END,
    published_version = CASE
        WHEN NOT %(told)s THEN e.published_version
        WHEN (e.body, e.removed) = (EXCLUDED.body, EXCLUDED.removed) THEN e.version
        ELSE e.version + 1 END,
    status = CASE WHEN %(told)s THEN 'published' ELSE 'pending' END::entry_status,
    attempts = 0, next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(), lease_epoch = e.lease_epoch + 1,
    published_at = CASE WHEN %(told)s THEN clock_timestamp() ELSE e.published_at END,
    last_error = NULL, removed = EXCLUDED.removed, body = EXCLUDED.body,
    (asset_id, revision, job_id, node_id) = (
        SELECT (o).asset_id, (o).revision, (o).job_id, (o).node_id
        FROM (SELECT CASE
            WHEN EXCLUDED.asset_id IS NULL AND e.asset_id IS NOT NULL AND NOT e.removed THEN e ELSE EXCLUDED
        END) AS whose (o)
    )
WHERE e.namespace = EXCLUDED.namespace
    AND (e.asset_id IS DISTINCT FROM EXCLUDED.asset_id OR e.revision <= EXCLUDED.revision OR e.asset_id IS NULL)

-- name: entries_of_others
-- Items of a collection belong to whom the collection belongs to.
SELECT collection_id
FROM dag_catalogue_entries AS e
JOIN jsonb_array_elements(%(entries)s::jsonb) AS r ON e.collection_id = r->>0 AND e.item_id IN ('', r->>1)
WHERE e.namespace <> r->>2
ORDER BY collection_id
LIMIT 1

-- name: newest_entries
-- What of these is the newest by now, for a catalogue that is told in this very transaction.
SELECT e.collection_id, e.item_id, e.removed, e.body
FROM dag_catalogue_entries AS e
JOIN jsonb_array_elements(%(entries)s::jsonb) AS r ON e.collection_id = r->>0 AND e.item_id = r->>1
WHERE e.body = r->4 AND e.removed = (r->>3)::boolean
ORDER BY e.collection_id, e.item_id

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
-- The catalogue shows them already; only whose they are changes.
UPDATE dag_catalogue_entries AS e
SET job_id = j.job_id, revision = j.revision, asset_id = CASE WHEN j.revision IS NOT NULL THEN j.asset_id END
FROM dag_jobs AS j
WHERE j.job_id = %(job_id)s AND e.job_id = j.rerun_of
    AND (e.node_id = ANY(%(nodes)s) OR regexp_replace(e.node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s))

-- name: keep_catalogue
-- After the jobs' rows say that they are completed: what a rollback to their revisions will publish again.
UPDATE dag_asset_revisions AS v
SET catalogue = COALESCE((
    SELECT jsonb_agg(
        jsonb_build_object('type', 'stac_item', 'collection_id', e.collection_id, 'item', e.body)
        ORDER BY e.collection_id, e.item_id)
    FROM dag_catalogue_entries AS e
    WHERE e.namespace = v.namespace AND e.asset_id = v.asset_id AND e.revision = v.revision
        AND e.item_id <> '' AND NOT e.removed
), '[]')
FROM dag_jobs AS j
WHERE j.job_id = ANY(%(jobs)s) AND j.status = 'completed' AND v.completed_at IS NULL
    AND v.namespace = j.namespace AND v.asset_id = j.asset_id AND v.revision = j.revision AND v.job_id = j.job_id

-- name: withdraw_older_entries
-- Users see the newest completed revision, and nothing of those before it that it has not published again.
UPDATE dag_catalogue_entries AS e
SET removed = true, version = e.version + 1, status = 'pending', attempts = 0, lease_epoch = e.lease_epoch + 1,
    next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(), last_error = NULL
FROM dag_jobs AS j
WHERE j.job_id = ANY(%(jobs)s) AND j.status = 'completed'
    AND e.namespace = j.namespace AND e.asset_id = j.asset_id AND e.revision < j.revision AND NOT e.removed

-- name: withdraw_asset
UPDATE dag_catalogue_entries AS e
SET removed = true, version = e.version + 1, status = 'pending', attempts = 0, lease_epoch = e.lease_epoch + 1,
    next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(), last_error = NULL
WHERE e.namespace = %(namespace)s AND e.asset_id = %(asset_id)s AND NOT e.removed
