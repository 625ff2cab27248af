-- name: insert_asset
INSERT INTO dag_geospatial_assets (namespace, asset_id, platform_id, platform_refs, kind, created_by)
VALUES (%(namespace)s, %(asset_id)s, %(platform_id)s, %(platform_refs)s::jsonb, %(kind)s::asset_kind, %(created_by)s)
ON CONFLICT DO NOTHING
RETURNING asset_id

-- name: lock_asset
-- Making a revision holds this until the end of the transaction, so that numbers have no gaps.
SELECT asset_id FROM dag_geospatial_assets
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s
FOR NO KEY UPDATE

-- name: asset_state
-- Once the lock is held: what was read while waiting for it may be old.
SELECT
    a.asset_id, a.kind, a.deleted_at IS NOT NULL, a.latest_revision, v.status, v.params_digest, v.job_id,
    f.request_id, f.client_id,
    COALESCE(j.ending IS NOT NULL OR j.completed_at IS NOT NULL, v.job_id IS NOT NULL), a.current_revision, c.source,
    c.version_label
FROM dag_geospatial_assets AS a
JOIN dag_asset_revisions AS v
    ON v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.revision = a.latest_revision
LEFT JOIN dag_asset_revisions AS c
    ON c.namespace = a.namespace AND c.asset_id = a.asset_id AND c.revision = a.current_revision
LEFT JOIN dag_jobs AS j ON j.job_id = v.job_id
LEFT JOIN LATERAL (
    SELECT COALESCE(q.client_request_id, q.request_id) AS request_id, q.client_id FROM dag_api_requests AS q
    WHERE q.namespace = a.namespace AND q.asset_id = a.asset_id AND q.revision = a.latest_revision
    ORDER BY q.created_at LIMIT 1
) AS f ON true
WHERE a.namespace = %(namespace)s AND a.asset_id = %(asset_id)s

-- name: insert_revision
-- It is reviewed if its workflow asks for that, or its platform: by a row of its namespace, else by that of `default`.
INSERT INTO dag_asset_revisions (
    namespace, asset_id, revision, job_id, params_digest, version_label, source, created_by, review_state
)
SELECT
    a.namespace, a.asset_id, %(revision)s, %(job_id)s, %(params_digest)s, %(version_label)s, %(source)s, %(created_by)s,
    CASE WHEN %(is_reviewed)s OR COALESCE(p.review, d.review, 'none') <> 'none' THEN 'pending_review' ELSE 'none'
    END::approval_state
FROM dag_geospatial_assets AS a
LEFT JOIN dag_platforms AS p ON p.namespace = a.namespace AND p.platform_id = a.platform_id
LEFT JOIN dag_platforms AS d ON d.namespace = 'default' AND d.platform_id = a.platform_id
WHERE a.namespace = %(namespace)s AND a.asset_id = %(asset_id)s

-- name: name_latest_revision
-- A deleted asset comes back with its next revision.
UPDATE dag_geospatial_assets
SET latest_revision = %(revision)s, deleted_at = NULL, deleted_by = NULL, updated_at = clock_timestamp()
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s

-- name: copy_revision
-- A rollback: the content of an earlier revision under a new number.
-- The same bytes need no second approval. What was never reviewed gets a review, if there are reviews by now.
INSERT INTO dag_asset_revisions (
    namespace, asset_id, revision, status, content_hash, params_digest, source, created_by, completed_at, outputs,
    footprint, warnings, version_label, review_state, clearance, decided_by, decided_at, decision_reason
)
SELECT
    v.namespace, v.asset_id, %(revision)s, 'completed', v.content_hash, v.params_digest, %(source)s, %(created_by)s,
    clock_timestamp(), v.outputs, v.footprint, v.warnings, v.version_label,
    CASE
        WHEN v.review_state = 'none' AND (n.review_state <> 'none' OR COALESCE(p.review, d.review, 'none') <> 'none')
            THEN 'pending_review'
        ELSE v.review_state
    END,
    v.clearance, v.decided_by, v.decided_at, v.decision_reason
FROM dag_asset_revisions AS v
JOIN dag_geospatial_assets AS a ON a.namespace = v.namespace AND a.asset_id = v.asset_id
JOIN dag_asset_revisions AS n
    ON n.namespace = a.namespace AND n.asset_id = a.asset_id AND n.revision = a.latest_revision
LEFT JOIN dag_platforms AS p ON p.namespace = a.namespace AND p.platform_id = a.platform_id
LEFT JOIN dag_platforms AS d ON d.namespace = 'default' AND d.platform_id = a.platform_id
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(of)s

-- name: copy_blobs
-- Ids as rmhdag.models.ids.blob_id_of makes them.
INSERT INTO dag_blob_assets (
    blob_id, namespace, zone, container, path, size_bytes, sha256, role, media_type, asset_id, revision, state, deleted_at
)
SELECT
    encode(sha256(
        convert_to(%(owner)s, 'UTF8') || '\x00' || convert_to(zone::text, 'UTF8') || '\x00'
        || convert_to(container, 'UTF8') || '\x00' || convert_to(path, 'UTF8') || '\x00' || convert_to(role, 'UTF8')
    ), 'hex'),
    namespace, zone, container, path, size_bytes, sha256, role, media_type, asset_id, %(revision)s, state, deleted_at
FROM dag_blob_assets
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(of)s

-- name: insert_lineage
INSERT INTO dag_dataset_refs (ref_id, namespace, asset_id, revision, role, source_asset_id, source_revision)
VALUES (%(ref_id)s, %(namespace)s, %(asset_id)s, %(revision)s, 'rollback', %(asset_id)s, %(of)s)

-- name: delete_asset
UPDATE dag_geospatial_assets
SET deleted_at = clock_timestamp(), deleted_by = %(by)s, updated_at = clock_timestamp()
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND deleted_at IS NULL

-- name: insert_request
INSERT INTO dag_api_requests (
    namespace, request_id, client_id, client_request_id, platform_id, workflow_id, asset_id, revision, job_id, joined,
    submitted_by, idempotency_key, callback_url, digest, subscriber, payload, labels
)
VALUES (
    %(namespace)s, %(request_id)s, %(client_id)s, %(client_request_id)s, %(platform_id)s, %(workflow_id)s, %(asset_id)s,
    %(revision)s, %(job_id)s, %(joined)s, %(submitted_by)s, %(idempotency_key)s, %(callback_url)s, %(digest)s,
    %(subscriber)s::jsonb, %(payload)s::jsonb, %(labels)s::jsonb
)
RETURNING created_at

-- name: move_requests
-- The requests of a job that is rerun follow the new one.
UPDATE dag_api_requests
SET job_id = %(new_job_id)s, revision = %(revision)s, updated_at = clock_timestamp()
WHERE job_id = %(job_id)s AND namespace = %(namespace)s

-- name: waits_for_person
SELECT 1 FROM dag_waiting_approvals WHERE job_id = %(job_id)s LIMIT 1

-- part: request
SELECT request_id, COALESCE(client_request_id, request_id), client_id, workflow_id, asset_id, revision, job_id, joined,
    created_at, digest, platform_id, submitted_by, callback_url, labels
FROM dag_api_requests

-- name: find_request
-- include: request
WHERE namespace = %(namespace)s AND request_id = %(request_id)s

-- name: find_request_of_client
-- include: request
WHERE namespace = %(namespace)s AND COALESCE(client_request_id, request_id) = %(request_id)s
    AND client_id = %(client_id)s

-- name: find_newest_request
-- Several clients may call an order of theirs the same.
-- include: request
WHERE namespace = %(namespace)s AND COALESCE(client_request_id, request_id) = %(request_id)s
ORDER BY created_at DESC
LIMIT 1

-- name: find_request_by_key
-- include: request
WHERE namespace = %(namespace)s AND submitted_by = %(submitted_by)s AND idempotency_key = %(idempotency_key)s

-- name: asset
SELECT
    asset_id, platform_id, platform_refs, kind, processing_status, latest_revision, current_revision, current_job_id,
    content_hash, approval_state, classification, created_by, created_at, updated_at, deleted_at, deleted_by
FROM dag_geospatial_assets
WHERE namespace = %(namespace)s

-- name: revision
-- What made it is known from its job, and is written down when that is deleted.
SELECT
    v.revision, v.status, v.source, v.job_id, v.content_hash, v.created_by, v.created_at, v.completed_at,
    v.error_message, v.version_label, v.review_state, v.clearance, v.decided_by, v.decided_at, v.decision_reason,
    v.unpublished_at, v.outputs, v.footprint, v.error, COALESCE(v.warnings, '[]') AS warnings,
    CASE
        WHEN v.made_by <> '{}' THEN v.made_by
        WHEN j.job_id IS NOT NULL THEN jsonb_build_object(
            'workflow_id', j.workflow_id, 'workflow_version', j.workflow_version, 'workflow_hash', j.workflow_hash,
            'input_params', j.input_params, 'submitted_by', j.submitted_by, 'rerun_of', j.rerun_of,
            'started_at', j.started_at, 'completed_at', j.completed_at
        )
    END AS made_by
FROM dag_asset_revisions AS v
LEFT JOIN dag_jobs AS j ON j.job_id = v.job_id
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s

-- name: revisions
-- Newest first, without what may be large.
SELECT revision, status, source, job_id, content_hash, created_by, created_at, completed_at, error_message,
    version_label, review_state, clearance, decided_by, decided_at, decision_reason, unpublished_at
FROM dag_asset_revisions
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision < %(before)s
ORDER BY revision DESC
LIMIT %(limit)s

-- name: version_label
SELECT version_label
FROM dag_asset_revisions
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s

-- name: versions
-- Which of them is served is computed with the asset, by `show_revisions`.
SELECT
    v.version_label, v.revision, v.status, v.review_state,
    v.revision IS NOT DISTINCT FROM a.current_revision AS served, v.created_at
FROM dag_asset_revisions AS v
JOIN dag_geospatial_assets AS a ON a.namespace = v.namespace AND a.asset_id = v.asset_id
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.version_label IS NOT NULL
ORDER BY v.revision DESC
LIMIT 100

-- name: unpublished_revision_of_job
SELECT revision FROM dag_asset_revisions WHERE job_id = %(job_id)s AND unpublished_at IS NOT NULL

-- name: blobs
SELECT blob_id, zone, container, path, size_bytes, sha256, role, media_type, state, job_id, node_id, created_at
FROM dag_blob_assets
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND blob_id > %(after)s
ORDER BY blob_id
LIMIT %(limit)s

-- name: lineage
SELECT role, source_asset_id, source_revision, source_url, created_at
FROM dag_dataset_refs
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s
ORDER BY created_at, ref_id
LIMIT 1000

-- name: descendants
-- Revisions that were made from this one.
SELECT role, asset_id, revision, created_at
FROM dag_dataset_refs
WHERE namespace = %(namespace)s AND source_asset_id = %(asset_id)s AND source_revision = %(revision)s
    AND asset_id IS NOT NULL
ORDER BY created_at, ref_id
LIMIT 1000
