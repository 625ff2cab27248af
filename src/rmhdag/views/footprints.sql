-- name: asset_footprints
-- Newest first, of the newest revision that has a place and files. An area without assets costs no more than one with
-- many: a page reads this many. Footprints that are too large to be drawn are not read; the boxes of items are. Without
-- a footprint, tables say where they are, else the output `bbox`.
WITH page AS (
    SELECT a.asset_id, a.platform_id, a.platform_refs, a.kind, a.approval_state, a.created_at, a.latest_revision
    FROM dag_geospatial_assets AS a
    WHERE a.namespace = %(namespace)s AND a.deleted_at IS NULL
        AND (a.created_at, a.asset_id) < (%(before_at)s, %(before_id)s)
        AND a.created_at >= %(since)s AND a.created_at < %(until)s
        AND (%(approval_state)s::approval_state IS NULL OR a.approval_state = %(approval_state)s::approval_state)
    ORDER BY a.created_at DESC, a.asset_id DESC
    LIMIT %(limit)s
)
SELECT
    p.asset_id, p.platform_id, p.platform_refs, p.kind, p.approval_state, p.created_at, v.revision, v.status, v.job_id,
    CASE WHEN pg_column_size(v.footprint) < %(most_bytes)s THEN v.footprint END AS geometry,
    CASE WHEN v.footprint IS NULL OR pg_column_size(v.footprint) >= %(most_bytes)s THEN (
        SELECT jsonb_agg(i.bbox) FROM (
            (SELECT r.body->'bbox' AS bbox FROM dag_revision_items AS r
             WHERE r.namespace = %(namespace)s AND r.asset_id = p.asset_id AND r.revision = v.revision
             LIMIT %(most_items)s)
            UNION ALL
            (SELECT t.details->'bbox' FROM dag_data_tables AS t
             WHERE t.namespace = %(namespace)s AND t.asset_id = p.asset_id AND t.revision = v.revision
                AND v.footprint IS NULL AND t.role <> 'view'
             LIMIT %(most_items)s)
        ) AS i
    ) END AS boxes,
    CASE WHEN v.footprint IS NULL AND pg_column_size(v.outputs) < %(most_bytes)s THEN v.outputs->'bbox' END AS output_box,
    EXISTS (
        SELECT 1 FROM dag_blob_assets AS b
        WHERE b.namespace = %(namespace)s AND b.asset_id = p.asset_id AND b.revision = v.revision
            AND b.role = 'thumbnail' AND b.state = 'present'
    ) AS has_thumbnail
FROM page AS p
LEFT JOIN LATERAL (
    SELECT r.revision, r.status, r.job_id, r.footprint, r.outputs FROM dag_asset_revisions AS r
    WHERE r.namespace = %(namespace)s AND r.asset_id = p.asset_id AND r.status = 'completed' AND r.unpublished_at IS NULL
    ORDER BY r.revision DESC
    LIMIT 1
) AS v ON true
ORDER BY p.created_at DESC, p.asset_id DESC

-- name: job_footprints
-- Newest first: where the items lie that a job has published, for an asset or by itself; else the box that it was given.
WITH page AS (
    SELECT j.job_id, j.workflow_id, j.status, j.created_at, j.asset_id, j.revision,
        CASE WHEN pg_column_size(j.input_params) < %(most_bytes)s THEN j.input_params->'bbox' END AS input_bbox
    FROM dag_jobs AS j
    WHERE j.namespace = %(namespace)s
        AND (j.created_at, j.job_id) < (%(before_at)s, %(before_id)s)
        AND j.created_at >= %(since)s AND j.created_at < %(until)s
        AND (%(status)s::job_status IS NULL OR j.status = %(status)s::job_status)
    ORDER BY j.created_at DESC, j.job_id DESC
    LIMIT %(limit)s
)
SELECT
    p.job_id, p.workflow_id, p.status, p.created_at, p.asset_id, p.revision, p.input_bbox,
    (
        SELECT jsonb_agg(i.geometry) FROM (
            (SELECT r.body->'geometry' AS geometry FROM dag_revision_items AS r
             WHERE r.job_id = p.job_id AND r.size_bytes < %(most_bytes)s LIMIT %(most_items)s)
            UNION ALL
            (SELECT e.body->'geometry' FROM dag_catalogue_entries AS e
             WHERE e.job_id = p.job_id AND e.asset_id IS NULL AND e.item_id <> '' AND NOT e.removed
                AND pg_column_size(e.body) < %(most_bytes)s LIMIT %(most_items)s)
        ) AS i
    ) AS geometries
FROM page AS p
ORDER BY p.created_at DESC, p.job_id DESC
