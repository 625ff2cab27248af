-- name: find_by_item
-- The revision whose item the catalogue shows, or else the newest one that has it: it may have been revoked before.
SELECT asset_id, revision
FROM (
    SELECT e.asset_id, e.revision, 1 AS place
    FROM dag_catalogue_entries AS e
    WHERE e.namespace = %(namespace)s AND e.collection_id = %(collection_id)s AND e.item_id = %(item_id)s
        AND e.asset_id IS NOT NULL AND NOT e.removed
    UNION ALL
    SELECT a.asset_id, a.revision, 2
    FROM (
        SELECT i.asset_id, i.revision
        FROM dag_catalogue_entries AS e
        JOIN dag_revision_items AS i ON i.namespace = e.namespace AND i.asset_id = e.asset_id
            AND i.collection_id = e.collection_id AND i.item_id = e.item_id
        WHERE e.namespace = %(namespace)s AND e.collection_id = %(collection_id)s AND e.item_id = %(item_id)s
        ORDER BY i.revision DESC
        LIMIT 1
    ) AS a
) AS found
ORDER BY place
LIMIT 1

-- name: asset
SELECT a.current_revision, v.status IN ('pending', 'processing'), v.job_id
FROM dag_geospatial_assets AS a
JOIN dag_asset_revisions AS v
    ON v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.revision = a.latest_revision
WHERE a.namespace = %(namespace)s AND a.asset_id = %(asset_id)s

-- name: revisions
SELECT revision, status, review_state, clearance, content_hash, unpublished_at
FROM dag_asset_revisions
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s
    AND (%(revision)s::int IS NULL OR revision = %(revision)s)
ORDER BY revision

-- name: files
-- Read by a cursor, as they lie: sorting many would take the time of one statement.
SELECT b.blob_id, b.zone::text, b.container, b.path, b.size_bytes, b.revision
FROM dag_blob_assets AS b
WHERE b.namespace = %(namespace)s AND b.asset_id = %(asset_id)s AND b.revision = ANY(%(revisions)s::int[])
    AND b.state = 'present'

-- name: other_owners
-- Of each place one other that has a file there, be it a revision or a job.
-- row: FilePlace
SELECT DISTINCT ON (o.zone, o.container, o.path)
    o.zone::text, o.container, o.path,
    COALESCE('asset ' || o.asset_id || ' revision ' || o.revision, 'job ' || o.job_id)
FROM jsonb_array_elements(%(places)s::jsonb) AS r
JOIN dag_blob_assets AS o
    ON o.path = r->>{path} AND o.container = r->>{container} AND o.zone = (r->>{zone})::zone
WHERE o.namespace = %(namespace)s AND o.state = 'present'
    AND (o.asset_id = %(asset_id)s AND o.revision = ANY(%(revisions)s::int[])) IS NOT TRUE
ORDER BY o.zone, o.container, o.path, o.blob_id

-- name: items
SELECT collection_id, item_id, bool_or(shown) AS shown, max(revision) AS revision
FROM (
    SELECT i.collection_id, i.item_id, false AS shown, i.revision
    FROM dag_revision_items AS i
    WHERE i.namespace = %(namespace)s AND i.asset_id = %(asset_id)s AND i.revision = ANY(%(revisions)s::int[])
    UNION ALL
    SELECT e.collection_id, e.item_id, true, e.revision
    FROM dag_catalogue_entries AS e
    WHERE e.namespace = %(namespace)s AND e.asset_id = %(asset_id)s AND e.revision = ANY(%(revisions)s::int[])
        AND e.item_id <> '' AND NOT e.removed
) AS i
GROUP BY collection_id, item_id
ORDER BY collection_id, item_id

-- name: places_outside
SELECT target, url, revision
FROM dag_promoted
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = ANY(%(revisions)s::int[])
ORDER BY target, revision

-- name: mark_revisions
-- What was approved is revoked, and what waited for a decision is rejected: neither has content any more.
UPDATE dag_asset_revisions
SET unpublished_at = clock_timestamp(), updated_at = clock_timestamp(),
    review_state = CASE review_state
        WHEN 'approved' THEN 'revoked'::approval_state
        WHEN 'pending_review' THEN 'rejected'::approval_state
        ELSE review_state END,
    decided_by = CASE WHEN review_state IN ('approved', 'pending_review') THEN %(by)s ELSE decided_by END,
    decided_at = CASE WHEN review_state IN ('approved', 'pending_review') THEN clock_timestamp() ELSE decided_at END,
    decision_reason = CASE WHEN review_state IN ('approved', 'pending_review') THEN %(reason)s ELSE decision_reason END
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = ANY(%(revisions)s::int[])

-- name: close_approvals
UPDATE dag_approvals
SET state = 'rejected', decided_by = %(by)s, decided_at = clock_timestamp(), reason = %(reason)s
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = ANY(%(revisions)s::int[])
    AND state = 'pending_review' AND decided_at IS NULL

-- name: insert_unpublishing
-- The same node that asks again finds its row.
INSERT INTO dag_unpublishings (
    unpublishing_id, namespace, asset_id, revision, status, forced, issued_by, reason, artifacts, completed_at
)
VALUES (
    %(unpublishing_id)s, %(namespace)s, %(asset_id)s, %(revision)s, %(status)s::unpublishing_status, %(forced)s, %(by)s,
    %(reason)s, %(artifacts)s::jsonb,
    CASE WHEN %(status)s::unpublishing_status <> 'pending' THEN clock_timestamp() END
)
ON CONFLICT (unpublishing_id) DO NOTHING

-- name: delete_files
-- A place that was deleted before is deleted once more: somebody has written it again meanwhile.
-- row: DoomedFile
INSERT INTO dag_file_deletions AS d (file_id, namespace, zone, container, path, unpublishing_id)
SELECT
    r->>{file_id}, r->>{namespace}, (r->>{zone})::zone, r->>{container}, r->>{path}, r->>{unpublishing_id}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ON CONFLICT (file_id) DO UPDATE SET
    unpublishing_id = EXCLUDED.unpublishing_id, status = 'pending', attempts = 0, lease_epoch = d.lease_epoch + 1,
    next_attempt_at = clock_timestamp(), settled_at = NULL, last_error = NULL

-- name: mark_blobs
UPDATE dag_blob_assets
SET state = 'deleted', deleted_at = clock_timestamp()
WHERE blob_id = ANY(%(blob_ids)s::text[]) AND state = 'present'

-- name: list
-- Newest first.
SELECT unpublishing_id, asset_id, revision, status, forced, issued_by, reason, created_at, completed_at, artifacts
FROM dag_unpublishings
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s
    AND (%(previews_too)s OR status <> 'dry_run')
    AND (%(before_at)s::timestamptz IS NULL OR (created_at, unpublishing_id) < (%(before_at)s, %(before_id)s::text))
ORDER BY created_at DESC, unpublishing_id DESC
LIMIT %(limit)s
