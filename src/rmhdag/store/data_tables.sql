-- `jsonb_typeof(r) = 'array'` is always true; settle.sql says what it is for.

-- name: lock_names
-- Of two who want a name at once, the second sees what the first has published.
SELECT pg_advisory_xact_lock(hashtextextended(concat('table ', %(namespace)s::text, '/', name), 0))
FROM unnest(%(names)s::text[]) AS name

-- name: foreign_places
-- Names that show a table of another asset, or that a revision of one will show which is being made or waits for its
-- review; or that show a table of no asset, unless it may be overwritten. All others are free.
SELECT p.table_name, p.asset_id
FROM dag_table_places AS p
LEFT JOIN dag_data_tables AS t ON t.table_id = p.table_id
WHERE p.namespace = %(namespace)s AND p.table_name = ANY(%(names)s) AND p.table_id IS NOT NULL
    AND CASE WHEN p.asset_id IS NOT NULL THEN p.asset_id IS DISTINCT FROM %(asset_id)s::varchar
        ELSE NOT %(overwrite)s AND t.job_id IS DISTINCT FROM %(job_id)s::varchar END
UNION ALL
SELECT t.table_name, t.asset_id
FROM dag_data_tables AS t
JOIN dag_asset_revisions AS v ON v.namespace = t.namespace AND v.asset_id = t.asset_id AND v.revision = t.revision
WHERE t.namespace = %(namespace)s AND t.table_name = ANY(%(names)s) AND t.state = 'present'
    AND t.asset_id IS DISTINCT FROM %(asset_id)s::varchar
    AND (v.status IN ('pending', 'processing') OR v.status = 'completed' AND v.review_state = 'pending_review')
ORDER BY 1
LIMIT 1

-- name: names_of_revision
SELECT DISTINCT table_name FROM dag_data_tables
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND state = 'present'
ORDER BY table_name

-- name: put_tables
-- row: TableRow
INSERT INTO dag_data_tables AS t (
    table_id, namespace, table_name, stored_name, role, geometry_type, feature_count, asset_id, revision, job_id, node_id,
    details
)
SELECT
    r->>{table_id}, r->>{namespace}, r->>{table_name}, r->>{stored_name}, (r->>{role})::table_role, r->>{geometry_type},
    (r->>{feature_count})::bigint, r->>{asset_id}, (r->>{revision})::int, r->>{job_id}, r->>{node_id}, r->{details}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>{table_id}
ON CONFLICT (table_id) DO UPDATE SET
    feature_count = EXCLUDED.feature_count, details = EXCLUDED.details, node_id = EXCLUDED.node_id, state = 'present',
    dropped_at = NULL

-- name: show_tables_of_job
-- Of a job that makes no revision: at once.
INSERT INTO dag_table_places AS p (namespace, table_name, table_id, owner)
SELECT t.namespace, t.table_name, t.table_id, t.job_id
FROM dag_data_tables AS t
WHERE t.table_id = ANY(%(tables)s)
ORDER BY t.table_name COLLATE "C"
ON CONFLICT (namespace, table_name) DO UPDATE SET
    table_id = EXCLUDED.table_id, asset_id = NULL, revision = NULL, owner = EXCLUDED.owner, version = p.version + 1,
    status = 'pending', attempts = 0, lease_epoch = p.lease_epoch + 1, changed_at = clock_timestamp(),
    next_attempt_at = clock_timestamp(), last_error = NULL
WHERE p.table_id IS DISTINCT FROM EXCLUDED.table_id

-- name: withdraw_older_places
-- Names that these assets showed and that these revisions do not have.
-- row: RevisionKey
UPDATE dag_table_places AS p
SET table_id = NULL, version = p.version + 1, status = 'pending', attempts = 0, lease_epoch = p.lease_epoch + 1,
    changed_at = clock_timestamp(), next_attempt_at = clock_timestamp(), last_error = NULL
FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
WHERE p.namespace = r->>{namespace} AND p.asset_id = r->>{asset_id} AND p.table_id IS NOT NULL
    AND jsonb_typeof(r) = 'array'
    AND NOT EXISTS (
        SELECT FROM dag_data_tables AS t
        WHERE t.namespace = p.namespace AND t.asset_id = p.asset_id AND t.revision = (r->>{revision})::int
            AND t.table_name = p.table_name AND t.state = 'present'
    )

-- name: show_tables
-- A name that another asset has by now stays with it, whatever this one had earlier.
-- row: RevisionKey
INSERT INTO dag_table_places AS p (namespace, table_name, table_id, asset_id, revision, owner)
SELECT t.namespace, t.table_name, t.table_id, t.asset_id, t.revision, t.asset_id
FROM jsonb_array_elements(%(revisions)s::jsonb) AS r
JOIN dag_data_tables AS t ON t.namespace = r->>{namespace} AND t.asset_id = r->>{asset_id}
    AND t.revision = (r->>{revision})::int AND t.state = 'present'
WHERE jsonb_typeof(r) = 'array'
ORDER BY t.namespace COLLATE "C", t.table_name COLLATE "C"
ON CONFLICT (namespace, table_name) DO UPDATE SET
    table_id = EXCLUDED.table_id, asset_id = EXCLUDED.asset_id, revision = EXCLUDED.revision, owner = EXCLUDED.owner,
    version = p.version + 1, status = 'pending', attempts = 0, lease_epoch = p.lease_epoch + 1,
    changed_at = clock_timestamp(), next_attempt_at = clock_timestamp(), last_error = NULL
WHERE p.table_id IS DISTINCT FROM EXCLUDED.table_id
    AND (p.table_id IS NULL OR p.asset_id IS NULL OR p.asset_id = EXCLUDED.asset_id)

-- name: withdraw_tables
UPDATE dag_table_places AS p
SET table_id = NULL, version = p.version + 1, status = 'pending', attempts = 0, lease_epoch = p.lease_epoch + 1,
    changed_at = clock_timestamp(), next_attempt_at = clock_timestamp(), last_error = NULL
WHERE p.namespace = %(namespace)s AND p.asset_id = %(asset_id)s AND p.table_id IS NOT NULL

-- name: copy_tables
-- For a revision that no job makes; ids as rmhdag.models.ids.table_id_of makes them.
INSERT INTO dag_data_tables (
    table_id, namespace, table_name, stored_name, role, geometry_type, feature_count, asset_id, revision, job_id, node_id,
    details
)
SELECT
    encode(sha256(convert_to(%(owner)s, 'UTF8') || '\x00' || convert_to(stored_name, 'UTF8')), 'hex'),
    namespace, table_name, stored_name, role, geometry_type, feature_count, asset_id, %(revision)s, NULL, NULL, details
FROM dag_data_tables
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(of)s AND state = 'present'
ON CONFLICT (table_id) DO NOTHING

-- name: has_lost_tables
-- Whether tables of the revision are gone.
SELECT EXISTS (
    SELECT FROM dag_data_tables
    WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND state <> 'present'
)

-- name: take_over_tables
-- What a rerun does not do again belongs to its revision as well.
INSERT INTO dag_data_tables (
    table_id, namespace, table_name, stored_name, role, geometry_type, feature_count, asset_id, revision, job_id, node_id,
    details
)
SELECT
    encode(sha256(convert_to(j.job_id, 'UTF8') || '\x00' || convert_to(t.stored_name, 'UTF8')), 'hex'),
    t.namespace, t.table_name, t.stored_name, t.role, t.geometry_type, t.feature_count,
    CASE WHEN j.revision IS NOT NULL THEN j.asset_id END, j.revision, j.job_id, t.node_id, t.details
FROM dag_jobs AS j
JOIN dag_data_tables AS t ON t.job_id = j.rerun_of
WHERE j.job_id = %(job_id)s AND t.state = 'present'
    AND (t.node_id = ANY(%(nodes)s) OR regexp_replace(t.node_id, '__[0-9]+$', '') = ANY(%(fan_outs)s))
ON CONFLICT (table_id) DO NOTHING

-- name: tables_of_revisions
-- Each with another owner of the same stored table.
SELECT t.table_name, t.stored_name, t.role::text, t.feature_count, t.revision, (
        SELECT COALESCE('asset ' || o.asset_id || ' revision ' || o.revision, 'job ' || o.job_id)
        FROM dag_data_tables AS o
        WHERE o.namespace = t.namespace AND o.stored_name = t.stored_name AND o.state = 'present'
            AND (o.asset_id = %(asset_id)s AND o.revision = ANY(%(revisions)s::int[])) IS NOT TRUE
        LIMIT 1
    )
FROM dag_data_tables AS t
WHERE t.namespace = %(namespace)s AND t.asset_id = %(asset_id)s AND t.revision = ANY(%(revisions)s::int[])
    AND t.state = 'present'
ORDER BY t.table_name, t.revision

-- name: drop_tables_of_revision
UPDATE dag_data_tables
SET state = 'dropping', unpublishing_id = %(unpublishing_id)s, next_attempt_at = clock_timestamp(), attempts = 0
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND state = 'present'

-- name: list_tables
SELECT table_name, role, geometry_type, feature_count, state
FROM dag_data_tables
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s
ORDER BY table_name
LIMIT %(limit)s

-- name: table_boxes
-- Where its data lie, as far as the catalogue was told; a view has nothing that its table has not.
SELECT details->'bbox'
FROM dag_data_tables
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND role <> 'view'
ORDER BY table_name
LIMIT %(limit)s

-- name: find_place
SELECT p.asset_id, p.revision, p.table_id
FROM dag_table_places AS p
WHERE p.namespace = %(namespace)s AND p.table_name = %(table_name)s
FOR UPDATE

-- name: drop_unowned
-- A table of a job without an asset, with what else the job has.
WITH hidden AS (
    UPDATE dag_table_places AS p
    SET table_id = NULL, version = p.version + 1, status = 'pending', attempts = 0, lease_epoch = p.lease_epoch + 1,
        changed_at = clock_timestamp(), next_attempt_at = clock_timestamp(), last_error = NULL
    WHERE p.namespace = %(namespace)s AND p.asset_id IS NULL AND p.table_id IS NOT NULL
        AND p.owner = (SELECT owner FROM dag_table_places WHERE namespace = %(namespace)s AND table_name = %(table_name)s)
    RETURNING p.namespace, p.owner
)
UPDATE dag_data_tables AS t
SET state = 'dropping', next_attempt_at = clock_timestamp(), attempts = 0
FROM (SELECT DISTINCT namespace, owner FROM hidden) AS h
WHERE t.namespace = h.namespace AND t.job_id = h.owner AND t.asset_id IS NULL AND t.state = 'present'
RETURNING t.table_name

-- name: has_due
SELECT EXISTS (
    SELECT FROM dag_table_places WHERE status = 'pending' AND next_attempt_at <= clock_timestamp()
) OR EXISTS (
    SELECT FROM dag_data_tables WHERE state = 'dropping' AND next_attempt_at <= clock_timestamp()
)

-- name: claim_places
-- With all other names of their owners that are pending: they change together.
WITH owners AS (
    SELECT DISTINCT d.namespace, d.owner
    FROM (
        SELECT namespace, owner FROM dag_table_places
        WHERE status = 'pending' AND next_attempt_at <= clock_timestamp()
        ORDER BY next_attempt_at
        LIMIT %(limit)s
    ) AS d
), due AS (
    SELECT p.namespace, p.table_name
    FROM dag_table_places AS p
    JOIN owners AS o ON o.namespace = p.namespace AND o.owner = p.owner
    WHERE p.status = 'pending'
    ORDER BY p.namespace, p.table_name
    FOR UPDATE OF p SKIP LOCKED
)
UPDATE dag_table_places AS p
SET lease_epoch = p.lease_epoch + 1, attempts = p.attempts + 1,
    next_attempt_at = clock_timestamp() + make_interval(secs => %(lease_seconds)s)
FROM due
WHERE p.namespace = due.namespace AND p.table_name = due.table_name
RETURNING p.namespace, p.table_name

-- name: claimed_places
-- By a statement of its own, under the locks of the claim: that may have claimed a newer version than its snapshot shows.
-- row: PlaceName
SELECT p.namespace, p.table_name, p.owner, p.version, p.lease_epoch, p.attempts, t.stored_name, p.revision, t.details
FROM jsonb_array_elements(%(places)s::jsonb) AS r
JOIN dag_table_places AS p ON p.namespace = r->>{namespace} AND p.table_name = r->>{table_name}
LEFT JOIN dag_data_tables AS t ON t.table_id = p.table_id
WHERE jsonb_typeof(r) = 'array'

-- name: settle_places
-- row: PlaceTry
UPDATE dag_table_places AS p
SET status = (r->>{status})::place_status, last_error = r->>{error},
    version = GREATEST(p.version, COALESCE((r->>{newer_version})::bigint + 1, p.version)),
    next_attempt_at = clock_timestamp() + make_interval(secs => COALESCE((r->>{delay_seconds})::float8, 0))
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
WHERE p.namespace = r->>{namespace} AND p.table_name = r->>{table_name} AND p.version = (r->>{version})::bigint
    AND (p.lease_epoch = (r->>{lease_epoch})::bigint OR r->>{status} = 'shown')
    AND jsonb_typeof(r) = 'array'

-- name: lock_owner
-- A rollback that has found the tables of an earlier revision copies their rows before they are given up.
SELECT asset_id FROM dag_geospatial_assets
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s
FOR NO KEY UPDATE

-- name: outlive_tables
-- Earlier revisions of these assets beyond the number that is kept. A stored table that a kept row names is not dropped.
WITH ranked AS (
    SELECT v.namespace, v.asset_id, v.revision,
        row_number() OVER (PARTITION BY v.namespace, v.asset_id ORDER BY v.revision DESC) AS rank
    FROM (
        SELECT DISTINCT t.namespace, t.asset_id, t.revision
        FROM dag_data_tables AS t
        JOIN dag_geospatial_assets AS a ON a.namespace = t.namespace AND a.asset_id = t.asset_id
        WHERE t.state = 'present' AND a.current_revision IS NOT NULL AND t.revision < a.current_revision
            AND t.namespace = %(namespace)s AND t.asset_id = %(asset_id)s
    ) AS v
)
UPDATE dag_data_tables AS t
SET state = 'dropping', next_attempt_at = clock_timestamp(), attempts = 0
FROM ranked AS k
WHERE k.rank > %(keep)s AND t.namespace = k.namespace AND t.asset_id = k.asset_id AND t.revision = k.revision
    AND t.state = 'present'

-- name: drop_overwritten
-- Tables of jobs without an asset whose name shows another table by now, or none.
UPDATE dag_data_tables AS t
SET state = 'dropping', next_attempt_at = clock_timestamp(), attempts = 0
FROM dag_table_places AS p
WHERE p.namespace = %(namespace)s AND p.table_name = ANY(%(names)s) AND p.status = 'shown'
    AND t.namespace = p.namespace AND t.table_name = p.table_name AND t.table_id IS DISTINCT FROM p.table_id
    AND t.asset_id IS NULL AND t.state = 'present'

-- name: hurry_drops
-- Drops that were refused while the name showed the table: nothing stands in their way now.
UPDATE dag_data_tables AS t
SET next_attempt_at = clock_timestamp()
WHERE t.namespace = %(namespace)s AND t.table_name = ANY(%(names)s) AND t.state = 'dropping'
    AND t.next_attempt_at > clock_timestamp()

-- name: namespaces_with_tables
SELECT DISTINCT namespace FROM dag_data_tables UNION SELECT 'default' ORDER BY 1

-- name: unknown_names
-- Stored tables that no row of ours names: what loaded them has failed, and its rows are gone or will never come.
SELECT name FROM unnest(%(names)s::text[]) AS name
WHERE NOT EXISTS (
    SELECT FROM dag_data_tables AS t
    WHERE t.namespace = %(namespace)s AND t.stored_name = name AND t.state <> 'dropped'
)

-- name: claim_drops
-- A stored table that somebody else still has is only struck from the row.
WITH due AS (
    SELECT table_id FROM dag_data_tables
    WHERE state = 'dropping' AND next_attempt_at <= clock_timestamp()
    ORDER BY next_attempt_at, (role <> 'view'), table_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE dag_data_tables AS t
SET attempts = t.attempts + 1, next_attempt_at = clock_timestamp() + make_interval(secs => %(lease_seconds)s)
FROM due
WHERE t.table_id = due.table_id
RETURNING t.table_id, t.namespace, t.stored_name, t.attempts, t.unpublishing_id, EXISTS (
    SELECT FROM dag_data_tables AS o
    WHERE o.namespace = t.namespace AND o.stored_name = t.stored_name AND o.table_id <> t.table_id AND o.state = 'present'
)

-- name: settle_drop
UPDATE dag_data_tables
SET state = CASE WHEN %(is_dropped)s THEN 'dropped'::table_state ELSE state END,
    dropped_at = CASE WHEN %(is_dropped)s THEN clock_timestamp() END, last_error = %(error)s,
    next_attempt_at = clock_timestamp() + make_interval(secs => %(delay_seconds)s)
WHERE table_id = %(table_id)s AND state = 'dropping'
