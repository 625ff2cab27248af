-- name: lock_assets
-- In their order: of two who lock several, neither waits for the other for ever. Always after the jobs.
-- row: RevisionKey without revision
SELECT a.asset_id
FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
JOIN dag_geospatial_assets AS a ON a.namespace = r->>{namespace} AND a.asset_id = r->>{asset_id}
    AND jsonb_typeof(r) = 'array'
ORDER BY a.namespace, a.asset_id
FOR NO KEY UPDATE OF a

-- name: follow_jobs
-- A revision that has ended never changes. Its content is what its job has published as data by now. Its outputs outlive
-- the job, and with them the payloads that they refer to. Those under review that have ended are returned.
WITH followed AS (
UPDATE dag_asset_revisions AS v
SET status = s.status,
    content_hash = CASE WHEN s.status = 'completed' THEN COALESCE((
            SELECT encode(sha256(convert_to(string_agg('data ' || b.sha256, E'\n' ORDER BY b.sha256), 'UTF8')), 'hex')
            FROM dag_blob_assets AS b
            WHERE b.namespace = v.namespace AND b.asset_id = v.asset_id AND b.revision = v.revision AND b.role = 'data'
        ), v.content_hash) END,
    outputs = CASE WHEN s.status = 'completed' THEN COALESCE(s.result_data, v.outputs) ELSE v.outputs END,
    -- Where its items are; of more than a hundred it would tell nobody anything.
    footprint = CASE WHEN s.status <> 'completed' THEN v.footprint ELSE COALESCE((
            SELECT CASE
                WHEN count(*) = 1 THEN NULLIF(jsonb_agg(f.geometry)->0, 'null')
                WHEN count(*) BETWEEN 2 AND 100 THEN jsonb_build_object(
                    'type', 'GeometryCollection',
                    'geometries', COALESCE(jsonb_agg(f.geometry) FILTER (WHERE f.geometry <> 'null'), '[]'))
            END
            FROM (
                SELECT i.body->'geometry' AS geometry FROM dag_revision_items AS i
                WHERE i.namespace = v.namespace AND i.asset_id = v.asset_id AND i.revision = v.revision
                ORDER BY i.collection_id, i.item_id
                LIMIT 101
            ) AS f
        ), v.footprint) END,
    error_message = s.error_message,
    error = s.error,
    warnings = s.warnings,
    completed_at = s.completed_at,
    updated_at = clock_timestamp()
FROM (
    SELECT
        j.namespace, j.asset_id, j.revision, j.job_id, j.result_data, j.error_message, j.error, j.warnings,
        j.completed_at,
        CASE
            WHEN j.status = 'running' THEN 'processing'
            WHEN j.status = 'cancelled' AND a.latest_revision > j.revision THEN 'superseded'
            ELSE j.status::text
        END::processing_status AS status
    FROM jsonb_array_elements_text(%(jobs)s::jsonb) AS r (job_id)
    JOIN dag_jobs AS j ON j.job_id = r.job_id
    JOIN dag_geospatial_assets AS a ON a.namespace = j.namespace AND a.asset_id = j.asset_id
) AS s
WHERE v.namespace = s.namespace AND v.asset_id = s.asset_id AND v.revision = s.revision AND v.job_id = s.job_id
    AND v.completed_at IS NULL
RETURNING v.namespace, v.asset_id, v.revision, v.outputs, v.status, v.review_state
), used AS (
    INSERT INTO dag_payload_uses (namespace, sha256, holder)
    SELECT DISTINCT f.namespace, u.sha256 #>> '{}', 'asset:' || f.asset_id || '/' || f.revision
    FROM followed AS f, jsonb_path_query(f.outputs, '$.**."rmhdag:payload".sha256') AS u (sha256)
    ON CONFLICT DO NOTHING
)
SELECT namespace, asset_id, revision, status, review_state
FROM followed
WHERE review_state <> 'none' AND status NOT IN ('pending', 'processing')
ORDER BY namespace, asset_id, revision

-- name: show_revisions
-- The newest revision says how the asset stands. The newest completed one that needs no approval or has one, and was
-- not unpublished, is what the asset is: the rule of what is served, and the only place that has it. Computed from all
-- of them, for two of one asset may end in one batch.
-- row: RevisionKey
UPDATE dag_geospatial_assets AS a
SET processing_status = s.status,
    current_job_id = s.job_id,
    current_revision = s.revision,
    content_hash = s.content_hash,
    approval_state = s.review_state,
    classification = s.clearance,
    updated_at = clock_timestamp()
FROM (
    SELECT
        n.namespace, n.asset_id, n.status, n.job_id, c.revision, c.content_hash,
        COALESCE(w.review_state, 'none') AS review_state, COALESCE(w.clearance, 'undecided') AS clearance
    FROM (
        SELECT DISTINCT r->>{namespace} AS namespace, r->>{asset_id} AS asset_id
        FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
    ) AS k
    JOIN dag_geospatial_assets AS x ON x.namespace = k.namespace AND x.asset_id = k.asset_id
    JOIN dag_asset_revisions AS n
        ON n.namespace = x.namespace AND n.asset_id = x.asset_id AND n.revision = x.latest_revision
    LEFT JOIN LATERAL (
        SELECT o.revision, o.content_hash
        FROM dag_asset_revisions AS o
        WHERE o.namespace = x.namespace AND o.asset_id = x.asset_id AND o.status = 'completed'
            AND o.review_state IN ('none', 'approved') AND o.unpublished_at IS NULL
        ORDER BY o.revision DESC
        LIMIT 1
    ) AS c ON true
    LEFT JOIN LATERAL (
        SELECT o.review_state, o.clearance
        FROM dag_asset_revisions AS o
        WHERE o.namespace = x.namespace AND o.asset_id = x.asset_id AND o.review_state <> 'none'
            AND (o.review_state <> 'pending_review' OR o.status IN ('pending', 'processing', 'completed'))
        ORDER BY o.revision DESC
        LIMIT 1
    ) AS w ON true
) AS s
WHERE a.namespace = s.namespace AND a.asset_id = s.asset_id

-- name: revision_of_job
SELECT namespace, asset_id, revision FROM dag_jobs WHERE job_id = %(job_id)s AND revision IS NOT NULL
