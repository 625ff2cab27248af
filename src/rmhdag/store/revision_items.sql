-- `jsonb_typeof(r) = 'array'` is always true; settle.sql says what it is for.

-- name: revisions_to_show
-- The rule of what the catalogue shows, and the only place that has it: the current revision of an asset that is not
-- deleted. The caller holds the assets' locks.
-- row: RevisionKey
SELECT a.namespace, a.asset_id, a.current_revision
FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
JOIN dag_geospatial_assets AS a ON a.namespace = r->>{namespace} AND a.asset_id = r->>{asset_id}
    AND jsonb_typeof(r) = 'array'
WHERE a.current_revision = (r->>{revision})::int AND a.deleted_at IS NULL
ORDER BY a.namespace, a.asset_id

-- name: stage_items
-- row: StagedItem
INSERT INTO dag_revision_items (
    namespace, asset_id, revision, collection_id, item_id, body, job_id, node_id, size_bytes
)
SELECT
    r->>{namespace}, r->>{asset_id}, (r->>{revision})::int, r->>{collection_id}, r->>{item_id}, r->{body}, r->>{job_id},
    r->>{node_id}, octet_length((r->{body})::text)
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ON CONFLICT (namespace, asset_id, revision, collection_id, item_id) DO UPDATE SET
    body = EXCLUDED.body, job_id = EXCLUDED.job_id, node_id = EXCLUDED.node_id, size_bytes = EXCLUDED.size_bytes

-- name: item_ranges
-- The items of these revisions in ranges of bounded size, so that no statement copies more than that. Sizes are in the
-- rows, so no body is read.
-- row: RevisionKey
WITH sized AS (
    SELECT
        i.namespace, i.asset_id, i.revision, i.collection_id, i.item_id,
        div(sum(i.size_bytes) OVER (
            PARTITION BY i.namespace, i.asset_id, i.revision ORDER BY i.collection_id, i.item_id), %(range_bytes)s) AS part
    FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
    JOIN dag_revision_items AS i ON i.namespace = r->>{namespace} AND i.asset_id = r->>{asset_id}
        AND i.revision = (r->>{revision})::int
    WHERE jsonb_typeof(r) = 'array'
), ends AS (
    SELECT DISTINCT ON (namespace, asset_id, revision, part) *
    FROM sized
    ORDER BY namespace, asset_id, revision, part, collection_id DESC, item_id DESC
)
SELECT
    namespace, asset_id, revision,
    COALESCE(lag(collection_id) OVER parts, ''), COALESCE(lag(item_id) OVER parts, ''), collection_id, item_id
FROM ends
WINDOW parts AS (PARTITION BY namespace, asset_id, revision ORDER BY part)
ORDER BY namespace, asset_id, revision, part

-- name: copy_items
-- To another revision of the same asset. `nodes` and `fan_outs` are null for all items.
INSERT INTO dag_revision_items (
    namespace, asset_id, revision, collection_id, item_id, body, job_id, node_id, size_bytes
)
SELECT namespace, asset_id, %(to_revision)s, collection_id, item_id, body, %(job_id)s, node_id, size_bytes
FROM dag_revision_items
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s
    AND (collection_id, item_id) > (%(after_collection)s, %(after_item)s)
    AND (collection_id, item_id) <= (%(last_collection)s, %(last_item)s)
    AND (
        %(nodes)s::text[] IS NULL OR node_id = ANY(%(nodes)s::text[])
        OR regexp_replace(node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s::text[])
    )
ON CONFLICT DO NOTHING

-- name: copy_kept_catalogue
-- Of a revision that was completed before there were rows for items.
INSERT INTO dag_revision_items (namespace, asset_id, revision, collection_id, item_id, body, size_bytes)
SELECT
    v.namespace, v.asset_id, %(to_revision)s, c->>'collection_id', c->'item'->>'id', c->'item',
    octet_length((c->'item')::text)
FROM dag_asset_revisions AS v, jsonb_array_elements(v.catalogue) AS c
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
ON CONFLICT DO NOTHING

-- name: rerun_revisions
-- The revision of the job that this one reruns, and its own.
SELECT o.namespace, o.asset_id, o.revision, j.revision
FROM dag_jobs AS j
JOIN dag_asset_revisions AS o ON o.job_id = j.rerun_of AND o.namespace = j.namespace AND o.asset_id = j.asset_id
WHERE j.job_id = %(job_id)s AND j.revision IS NOT NULL

-- name: take_over_shown_entries
-- A job that ended before there were rows for items has left its items in the catalogue only.
INSERT INTO dag_revision_items (
    namespace, asset_id, revision, collection_id, item_id, body, job_id, node_id, size_bytes
)
SELECT
    j.namespace, j.asset_id, j.revision, e.collection_id, e.item_id, e.body, j.job_id, e.node_id,
    octet_length(e.body::text)
FROM dag_jobs AS j
JOIN dag_catalogue_entries AS e
    ON e.job_id = j.rerun_of AND e.namespace = j.namespace AND e.asset_id = j.asset_id AND e.item_id <> '' AND NOT e.removed
WHERE j.job_id = %(job_id)s AND j.revision IS NOT NULL
    AND (e.node_id = ANY(%(nodes)s) OR regexp_replace(e.node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s))
ON CONFLICT DO NOTHING

-- name: keep_shown_entries
-- A job that began before there were rows for items has shown some already; they belong to its revision.
-- row: RevisionKey
INSERT INTO dag_revision_items (
    namespace, asset_id, revision, collection_id, item_id, body, job_id, node_id, size_bytes
)
SELECT
    e.namespace, e.asset_id, e.revision, e.collection_id, e.item_id, e.body, e.job_id, e.node_id,
    octet_length(e.body::text)
FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
JOIN dag_catalogue_entries AS e
    ON e.namespace = r->>{namespace} AND e.asset_id = r->>{asset_id} AND e.revision = (r->>{revision})::int
        AND e.item_id <> '' AND NOT e.removed
WHERE jsonb_typeof(r) = 'array'
ON CONFLICT DO NOTHING

-- name: withdraw_older_entries
-- What these assets showed and these revisions do not have.
-- row: RevisionKey
UPDATE dag_catalogue_entries AS e
SET removed = true, body = '{}', version = e.version + 1, status = 'pending', attempts = 0,
    lease_epoch = e.lease_epoch + 1, next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(), last_error = NULL
FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
WHERE e.namespace = r->>{namespace} AND e.asset_id = r->>{asset_id} AND e.revision <> (r->>{revision})::int
    AND NOT e.removed
    AND jsonb_typeof(r) = 'array'
    AND NOT EXISTS (
        SELECT FROM dag_revision_items AS i
        WHERE i.namespace = r->>{namespace} AND i.asset_id = r->>{asset_id} AND i.revision = (r->>{revision})::int
            AND i.collection_id = e.collection_id AND i.item_id = e.item_id
    )

-- name: show_items
-- Locked in the order of their keys.
INSERT INTO dag_catalogue_entries AS e (
    collection_id, item_id, namespace, body, asset_id, revision, job_id, node_id
)
SELECT i.collection_id, i.item_id, i.namespace, i.body, i.asset_id, i.revision, i.job_id, i.node_id
FROM dag_revision_items AS i
WHERE i.namespace = %(namespace)s AND i.asset_id = %(asset_id)s AND i.revision = %(revision)s
    AND (i.collection_id, i.item_id) > (%(after_collection)s, %(after_item)s)
    AND (i.collection_id, i.item_id) <= (%(last_collection)s, %(last_item)s)
ORDER BY i.collection_id COLLATE "C", i.item_id COLLATE "C"
ON CONFLICT (namespace, collection_id, item_id) DO UPDATE SET
    version = CASE WHEN (e.body, e.removed) = (EXCLUDED.body, EXCLUDED.removed) THEN e.version ELSE e.version + 1 END,
    status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(),
    lease_epoch = e.lease_epoch + 1, last_error = NULL, removed = EXCLUDED.removed, body = EXCLUDED.body,
    asset_id = EXCLUDED.asset_id, revision = EXCLUDED.revision, job_id = EXCLUDED.job_id, node_id = EXCLUDED.node_id

-- name: withdraw_asset
UPDATE dag_catalogue_entries AS e
SET removed = true, body = '{}', version = e.version + 1, status = 'pending', attempts = 0,
    lease_epoch = e.lease_epoch + 1, next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(), last_error = NULL
WHERE e.namespace = %(namespace)s AND e.asset_id = %(asset_id)s AND NOT e.removed
