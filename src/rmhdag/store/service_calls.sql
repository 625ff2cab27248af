-- name: facts
-- What services learn about a revision: its first item and its first data file stand for all of them.
SELECT
    a.platform_id, a.platform_refs, a.kind::text, v.content_hash, v.version_label, v.clearance::text, i.collection_id,
    i.item_id, b.container, b.path
FROM dag_asset_revisions AS v
JOIN dag_geospatial_assets AS a ON a.namespace = v.namespace AND a.asset_id = v.asset_id
LEFT JOIN LATERAL (
    SELECT collection_id, item_id FROM dag_revision_items
    WHERE namespace = v.namespace AND asset_id = v.asset_id AND revision = v.revision
    ORDER BY collection_id, item_id LIMIT 1
) AS i ON true
LEFT JOIN LATERAL (
    SELECT container, path FROM dag_blob_assets
    WHERE namespace = v.namespace AND asset_id = v.asset_id AND revision = v.revision AND role = 'data'
    ORDER BY blob_id LIMIT 1
) AS b ON true
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s

-- name: enabled_services
SELECT service_id, name, kind::text, settings
FROM dag_external_services
WHERE namespace = %(namespace)s AND enabled AND (%(name)s::text IS NULL OR name = %(name)s)
ORDER BY name

-- name: insert_calls
-- row: NewServiceCall
INSERT INTO dag_service_calls (call_id, namespace, service_id, asset_id, revision, action, requested_by, body)
SELECT
    r->>{call_id}, r->>{namespace}, r->>{service_id}, r->>{asset_id}, (r->>{revision})::int,
    (r->>{action})::service_action, r->>{requested_by}, r->{body}
FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ORDER BY r->>{call_id}
ON CONFLICT (namespace, service_id, asset_id, revision, action) DO NOTHING

-- name: announced_services
-- The services that were notified of the approval, or may have been, and their kind.
SELECT s.service_id, s.name, s.kind::text, s.settings, c.lease_epoch > 0
FROM dag_service_calls AS c
JOIN dag_external_services AS s ON s.service_id = c.service_id
WHERE c.namespace = %(namespace)s AND c.asset_id = %(asset_id)s AND c.revision = %(revision)s
    AND c.action = 'approval' AND c.status <> 'cancelled'
ORDER BY s.name

-- name: announced_revisions
SELECT DISTINCT revision
FROM dag_service_calls
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND action = 'approval' AND status <> 'cancelled'
ORDER BY revision

-- name: cancel_calls
-- An approval that no service was notified of is never sent. One whose pipeline is running is watched to its end:
-- later calls have to know how it ended.
UPDATE dag_service_calls AS c
SET status = 'cancelled', settled_at = clock_timestamp(), lease_epoch = c.lease_epoch + 1,
    last_error = 'what it announces was withdrawn'
FROM dag_external_services AS s
WHERE s.service_id = c.service_id AND c.namespace = %(namespace)s AND c.asset_id = %(asset_id)s
    AND c.revision = %(revision)s AND c.action = 'approval' AND c.status = 'pending'
    AND (c.lease_epoch = 0 OR s.kind <> 'adf')

-- name: has_due
SELECT EXISTS (SELECT FROM dag_service_calls WHERE status = 'pending' AND next_attempt_at <= clock_timestamp())

-- name: claim_calls
-- A withdrawal waits until the approval before it is settled. Each service gets its share of a bite, so that one with
-- many calls keeps no other waiting.
WITH due AS MATERIALIZED (
    SELECT c.call_id, c.next_attempt_at,
        row_number() OVER (PARTITION BY c.service_id ORDER BY c.next_attempt_at, c.call_id) AS place
    FROM dag_service_calls AS c
    JOIN dag_external_services AS s ON s.service_id = c.service_id AND s.enabled
    WHERE c.status = 'pending' AND c.next_attempt_at <= clock_timestamp()
        AND (c.action <> 'withdrawal' OR NOT EXISTS (
            SELECT FROM dag_service_calls AS a
            WHERE a.namespace = c.namespace AND a.service_id = c.service_id AND a.asset_id = c.asset_id
                AND a.revision = c.revision AND a.action = 'approval' AND a.status = 'pending'))
), chosen AS MATERIALIZED (
    SELECT c.call_id
    FROM due AS d
    JOIN dag_service_calls AS c ON c.call_id = d.call_id
    WHERE d.place <= %(per_service)s AND c.status = 'pending' AND c.next_attempt_at <= clock_timestamp()
    ORDER BY d.place, d.next_attempt_at, c.call_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE dag_service_calls AS c
SET lease_epoch = c.lease_epoch + 1, next_attempt_at = clock_timestamp() + %(lease_seconds)s * interval '1 second'
FROM chosen, dag_external_services AS s
WHERE c.call_id = chosen.call_id AND s.service_id = c.service_id
RETURNING
    c.call_id, c.lease_epoch, c.namespace, c.service_id, c.asset_id, c.revision, c.action::text, c.attempts, c.run_id,
    c.body, c.created_at, clock_timestamp(), s.name, s.kind::text, s.url, s.settings, s.secret

-- name: settle_calls
-- row: ServiceTry
UPDATE dag_service_calls AS c
SET status = s.status, run_id = r->>{run_id},
    attempts = c.attempts + CASE WHEN (r->>{counts})::boolean THEN 1 ELSE 0 END,
    next_attempt_at = clock_timestamp() + COALESCE((r->>{delay_seconds})::float8, 0) * interval '1 second',
    last_attempt_at = clock_timestamp(),
    settled_at = CASE WHEN s.status <> 'pending' THEN clock_timestamp() END,
    last_status = (r->>{last_status})::int,
    last_error = r->>{last_error}
FROM jsonb_array_elements(%(tries)s::jsonb) AS r, LATERAL (SELECT (r->>{status})::call_status AS status) AS s
WHERE c.call_id = r->>{call_id} AND c.lease_epoch = (r->>{lease_epoch})::bigint AND c.status = 'pending'
RETURNING c.call_id

-- name: count_failures
UPDATE dag_external_services
SET failures = CASE WHEN %(failed)s THEN failures + 1 ELSE 0 END
WHERE service_id = %(service_id)s AND (%(failed)s OR failures > 0)

-- name: put_promoted
INSERT INTO dag_promoted (namespace, asset_id, revision, target, url)
VALUES (%(namespace)s, %(asset_id)s, %(revision)s, %(target)s, %(url)s)
ON CONFLICT (namespace, asset_id, revision, target) DO UPDATE SET url = EXCLUDED.url, promoted_at = clock_timestamp()

-- name: remove_promoted
DELETE FROM dag_promoted
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND target = %(target)s

-- name: bury_call
INSERT INTO dag_dead_letters (dead_letter_id, namespace, reason, error_message, body)
VALUES (%(letter)s, %(namespace)s, %(reason)s, %(error)s, %(body)s::jsonb)
ON CONFLICT (dead_letter_id) DO NOTHING

-- name: lock_asset_of_call
SELECT a.asset_id
FROM dag_service_calls AS c
JOIN dag_geospatial_assets AS a ON a.namespace = c.namespace AND a.asset_id = c.asset_id
WHERE c.namespace = %(namespace)s AND c.call_id = %(call_id)s
FOR NO KEY UPDATE OF a

-- name: retry_call
-- The schedule begins anew. A run that is known stays known, unless it failed: then settling has forgotten it. What was
-- withdrawn since is not announced any more.
UPDATE dag_service_calls AS c
SET status = 'pending', settled_at = NULL, attempts = 0, next_attempt_at = clock_timestamp(),
    lease_epoch = c.lease_epoch + 1
WHERE c.namespace = %(namespace)s AND c.call_id = %(call_id)s AND c.status = 'dead'
    AND (c.action <> 'approval' OR EXISTS (
        SELECT FROM dag_asset_revisions AS v
        JOIN dag_geospatial_assets AS a ON a.namespace = v.namespace AND a.asset_id = v.asset_id
        WHERE v.namespace = c.namespace AND v.asset_id = c.asset_id AND v.revision = c.revision
            AND v.review_state IN ('none', 'approved') AND v.unpublished_at IS NULL AND a.deleted_at IS NULL))

-- name: list
-- Newest first.
SELECT
    c.call_id, s.name AS service, c.asset_id, c.revision, c.action, c.status, c.attempts, c.run_id, c.requested_by,
    c.created_at, CASE WHEN c.status = 'pending' THEN c.next_attempt_at END AS next_attempt_at, c.last_attempt_at,
    c.settled_at, c.last_status, c.last_error
FROM dag_service_calls AS c
JOIN dag_external_services AS s ON s.service_id = c.service_id
WHERE c.namespace = %(namespace)s AND c.service_id = %(service_id)s
    AND (%(before)s::text IS NULL OR c.call_id < %(before)s)
    AND (%(status)s::call_status IS NULL OR c.status = %(status)s::call_status)
    AND (%(call_id)s::text IS NULL OR c.call_id = %(call_id)s)
ORDER BY c.call_id DESC
LIMIT %(limit)s
