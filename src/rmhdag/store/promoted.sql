-- part: shown
-- Outside sees what is public here and in its revision, and what the catalogue shows. An item of an asset under review
-- has the clearance of its revision; one that no review applies to is as public as its entry says.
SELECT
    p.promoted_id, p.collection_id, p.item_id, p.title, p.description, p.thumbnail_url, p.style_id, p.gallery_order,
    p.system_role, p.classification::text, p.promoted_by, p.promoted_at, p.updated_at, p.tags, p.viewer_config,
    COALESCE(NOT e.removed, false) AS is_there,
    COALESCE(v.review_state <> 'none' AND v.clearance <> 'public', false) AS is_withheld
FROM dag_promoted_datasets AS p
LEFT JOIN dag_catalogue_entries AS e
    ON e.namespace = p.namespace AND e.collection_id = p.collection_id AND e.item_id = p.item_id
LEFT JOIN dag_asset_revisions AS v
    ON v.namespace = e.namespace AND v.asset_id = e.asset_id AND v.revision = e.revision

-- name: find
-- include: shown
WHERE p.namespace = %(namespace)s AND p.promoted_id = %(promoted_id)s

-- name: list
-- include: shown
WHERE p.namespace = %(namespace)s AND p.promoted_id > %(after)s
    AND (%(system_role)s::text IS NULL OR p.system_role = %(system_role)s)
    AND (NOT %(outside)s OR (p.classification = 'public' AND NOT e.removed
        AND (v.review_state IS NULL OR v.review_state = 'none' OR v.clearance = 'public')))
ORDER BY p.promoted_id
LIMIT %(limit)s

-- name: gallery
-- include: shown
WHERE p.namespace = %(namespace)s AND p.gallery_order IS NOT NULL
    AND (NOT %(outside)s OR (p.classification = 'public' AND NOT e.removed
        AND (v.review_state IS NULL OR v.review_state = 'none' OR v.clearance = 'public')))
ORDER BY p.gallery_order, p.promoted_id
LIMIT %(limit)s

-- name: reference
-- Whether the catalogue has it, and whether its revision is withheld from the public.
SELECT COALESCE(v.review_state <> 'none' AND v.clearance <> 'public', false)
FROM dag_catalogue_entries AS e
LEFT JOIN dag_asset_revisions AS v
    ON v.namespace = e.namespace AND v.asset_id = e.asset_id AND v.revision = e.revision
WHERE e.namespace = %(namespace)s AND e.collection_id = %(collection_id)s AND e.item_id = %(item_id)s AND NOT e.removed

-- name: put
-- The gallery is arranged by itself: what is there keeps its place.
INSERT INTO dag_promoted_datasets (
    namespace, promoted_id, collection_id, item_id, title, description, thumbnail_url, style_id, gallery_order,
    system_role, classification, promoted_by, tags, viewer_config
)
VALUES (
    %(namespace)s, %(promoted_id)s, %(collection_id)s, %(item_id)s, %(title)s, %(description)s, %(thumbnail_url)s,
    %(style_id)s, %(gallery_order)s, %(system_role)s, %(classification)s::classification, %(by)s, %(tags)s::jsonb,
    %(viewer_config)s::jsonb
)
ON CONFLICT (namespace, promoted_id) DO UPDATE SET
    collection_id = EXCLUDED.collection_id, item_id = EXCLUDED.item_id, title = EXCLUDED.title,
    description = EXCLUDED.description, thumbnail_url = EXCLUDED.thumbnail_url, style_id = EXCLUDED.style_id,
    gallery_order = EXCLUDED.gallery_order, system_role = EXCLUDED.system_role,
    classification = EXCLUDED.classification, tags = EXCLUDED.tags, viewer_config = EXCLUDED.viewer_config,
    updated_at = clock_timestamp()

-- name: delete
DELETE FROM dag_promoted_datasets WHERE namespace = %(namespace)s AND promoted_id = %(promoted_id)s

-- name: lock
SELECT promoted_id FROM dag_promoted_datasets WHERE namespace = %(namespace)s ORDER BY promoted_id FOR NO KEY UPDATE

-- name: arrange
UPDATE dag_promoted_datasets AS p
SET gallery_order = o.place, updated_at = clock_timestamp()
FROM (
    SELECT q.promoted_id, array_position(%(ids)s::text[], q.promoted_id::text) AS place
    FROM dag_promoted_datasets AS q
    WHERE q.namespace = %(namespace)s
) AS o
WHERE p.namespace = %(namespace)s AND p.promoted_id = o.promoted_id AND p.gallery_order IS DISTINCT FROM o.place
