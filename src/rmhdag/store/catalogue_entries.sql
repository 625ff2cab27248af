-- name: has_due
SELECT EXISTS (SELECT FROM dag_catalogue_entries WHERE status = 'pending' AND next_attempt_at <= clock_timestamp())

-- name: claim_entries
-- Collections before items, so that readers find what items are linked from.
WITH chosen AS MATERIALIZED (
    SELECT namespace, collection_id, item_id
    FROM dag_catalogue_entries
    WHERE status = 'pending' AND next_attempt_at <= clock_timestamp()
    ORDER BY item_id <> '', next_attempt_at, collection_id, item_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE dag_catalogue_entries AS e
SET lease_epoch = e.lease_epoch + 1, attempts = e.attempts + 1,
    next_attempt_at = clock_timestamp() + %(lease_seconds)s * interval '1 second'
FROM chosen
WHERE e.namespace = chosen.namespace AND e.collection_id = chosen.collection_id AND e.item_id = chosen.item_id
RETURNING
    e.collection_id, e.item_id, e.removed, e.body, e.version, e.lease_epoch, e.attempts, e.namespace, e.job_id, e.node_id

-- name: settle_entries
-- A relay overtaken by a newer version finds no row. Any relay may record that an entry is shown, even after its lease:
-- storage slower than a lease would otherwise never be done. Only the holder of the lease may record a failure.
-- row: EntryTry
UPDATE dag_catalogue_entries AS e
SET status = s.status,
    version = GREATEST(e.version, (r->>{newer_version})::bigint + 1),
    published_version = CASE WHEN s.status = 'published' THEN e.version ELSE e.published_version END,
    published_at = CASE WHEN s.status = 'published' THEN clock_timestamp() ELSE e.published_at END,
    next_attempt_at = clock_timestamp() + COALESCE((r->>{delay_seconds})::float8, 0) * interval '1 second',
    last_error = r->>{error}
FROM jsonb_array_elements(%(tries)s::jsonb) AS r, LATERAL (SELECT (r->>{status})::entry_status AS status) AS s
WHERE e.namespace = r->>{namespace} AND e.collection_id = r->>{collection_id} AND e.item_id = r->>{item_id}
    AND e.version = (r->>{version})::bigint
    AND e.status = 'pending' AND (e.lease_epoch = (r->>{lease_epoch})::bigint OR s.status = 'published')
RETURNING e.namespace, e.collection_id, e.item_id

-- name: keep_entries
-- row: EntryClaim
UPDATE dag_catalogue_entries AS e
SET next_attempt_at = clock_timestamp() + %(lease_seconds)s * interval '1 second'
FROM jsonb_array_elements(%(claims)s::jsonb) AS r
WHERE e.namespace = r->>{namespace} AND e.collection_id = r->>{collection_id} AND e.item_id = r->>{item_id}
    AND e.lease_epoch = (r->>{lease_epoch})::bigint
    AND e.version = (r->>{version})::bigint AND e.status = 'pending'
RETURNING e.namespace, e.collection_id, e.item_id

-- name: bury_entry
INSERT INTO dag_dead_letters (dead_letter_id, namespace, reason, error_message, job_id, node_id, body)
VALUES (%(letter)s, %(namespace)s, %(reason)s, %(error)s, %(job_id)s, %(node_id)s, %(body)s::jsonb)
ON CONFLICT (dead_letter_id) DO NOTHING

-- name: revive_entry
UPDATE dag_catalogue_entries
SET status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), lease_epoch = lease_epoch + 1
WHERE namespace = %(namespace)s AND collection_id = %(collection_id)s AND item_id = %(item_id)s AND status = 'dead'
