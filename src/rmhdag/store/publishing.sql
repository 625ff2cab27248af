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
SELECT
    j.job_id, j.namespace, j.asset_id, j.revision, a.asset_id, a.revision, a.job_id, a.node_id, j.submitted_by
FROM dag_jobs AS j
LEFT JOIN ancestors AS a ON a.child_id = j.job_id AND a.revision IS NOT NULL
WHERE j.job_id = ANY(%(jobs)s)

-- name: put_blobs
-- row: BlobRow
INSERT INTO dag_blob_assets AS b (
    blob_id, namespace, zone, container, path, size_bytes, sha256, role, media_type, asset_id, revision, job_id, node_id
)
SELECT
    r->>{blob_id}, r->>{namespace}, (r->>{zone})::zone, r->>{container}, r->>{path}, (r->>{size_bytes})::bigint,
    r->>{sha256}, r->>{role}, r->>{media_type}, r->>{asset_id}, (r->>{revision})::int, r->>{job_id}, r->>{node_id}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>{blob_id}
ON CONFLICT (blob_id) DO UPDATE SET
    size_bytes = EXCLUDED.size_bytes, sha256 = EXCLUDED.sha256, media_type = EXCLUDED.media_type,
    node_id = EXCLUDED.node_id, state = 'present', deleted_at = NULL

-- name: put_lineage
-- row: LineageRow
INSERT INTO dag_dataset_refs (
    ref_id, namespace, asset_id, revision, job_id, node_id, role, source_asset_id, source_revision, source_url
)
SELECT
    r->>{ref_id}, r->>{namespace}, r->>{asset_id}, (r->>{revision})::int, r->>{job_id}, r->>{node_id}, r->>{role},
    r->>{source_asset_id}, (r->>{source_revision})::int, r->>{source_url}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>{ref_id}
ON CONFLICT (ref_id) DO NOTHING

-- name: put_promotions
-- row: PromotionRow
INSERT INTO dag_promoted (namespace, asset_id, revision, target, url)
SELECT r->>{namespace}, r->>{asset_id}, (r->>{revision})::int, r->>{target}, r->>{url}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>{asset_id}, r->>{revision}, r->>{target}
ON CONFLICT (namespace, asset_id, revision, target) DO UPDATE SET url = EXCLUDED.url, promoted_at = clock_timestamp()

-- name: promotable_revision
-- Only what is served, and only under its own number.
SELECT a.current_revision, v.clearance::text
FROM dag_geospatial_assets AS a
JOIN dag_asset_revisions AS v
    ON v.namespace = a.namespace AND v.asset_id = a.asset_id AND v.revision = a.current_revision
WHERE a.namespace = %(namespace)s AND a.asset_id = %(asset_id)s AND a.deleted_at IS NULL
    AND (%(revision)s::int IS NULL OR a.current_revision = %(revision)s)

-- name: may_unpublish
-- The submitter needs a key or a session with a scope that may unpublish by a command. Without any key it may be somebody
-- on the machine itself, if the job was submitted there: the holder of an issuer's token has no row here either.
WITH RECURSIVE ancestors AS (
    SELECT job_id, parent_job_id FROM dag_jobs WHERE job_id = %(job_id)s
    UNION ALL
    SELECT p.job_id, p.parent_job_id FROM ancestors AS a JOIN dag_jobs AS p ON p.job_id = a.parent_job_id
)
SELECT EXISTS (
    SELECT FROM dag_api_keys AS k
    WHERE k.namespace = %(namespace)s AND k.name = %(name)s AND k.kind IN ('key', 'session') AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
        AND jsonb_exists_any(k.scopes, ARRAY['operate', 'ops', 'admin'])
) OR NOT EXISTS (
    SELECT FROM dag_api_keys AS k
    WHERE k.namespace = %(namespace)s AND k.name = %(name)s AND k.kind = 'key'
) AND EXISTS (
    SELECT FROM ancestors AS a
    JOIN dag_job_events AS e ON e.job_id = a.job_id AND e.seq = 1 AND e.source_app = 'cli'
    WHERE a.parent_job_id IS NULL
)

-- name: put_entries
-- Collections, and items of jobs that make no revision. Locked in the order of their keys, so that two who publish the
-- same items do not deadlock. An entry that has not changed keeps its version but is written again: its file may be lost,
-- which the entry does not know. An item that an asset shows stays the asset's: a job without an asset only repairs it.
-- row: EntryChange
INSERT INTO dag_catalogue_entries AS e (collection_id, item_id, namespace, removed, body, job_id, node_id)
SELECT
    r->>{collection_id}, r->>{item_id}, r->>{namespace}, (r->>{removed})::boolean, r->{body}, r->>{job_id},
    r->>{node_id}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY (r->>{namespace}) COLLATE "C", (r->>{collection_id}) COLLATE "C", (r->>{item_id}) COLLATE "C"
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
