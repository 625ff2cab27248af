-- name: has_due
SELECT EXISTS (
    SELECT FROM dag_file_deletions WHERE status IN ('pending', 'deleting') AND next_attempt_at <= clock_timestamp()
)

-- name: claim_deletions
-- From this commit on, publishing a file at such a place is refused: the file may be gone in a moment. Files wait
-- until the catalogue shows the asset as it is now: it must not link to a deleted file.
WITH chosen AS MATERIALIZED (
    SELECT d.file_id
    FROM dag_file_deletions AS d
    JOIN dag_unpublishings AS u ON u.unpublishing_id = d.unpublishing_id
    WHERE d.status IN ('pending', 'deleting') AND d.next_attempt_at <= clock_timestamp()
        AND NOT EXISTS (
            SELECT FROM dag_catalogue_entries AS e
            WHERE e.namespace = u.namespace AND e.asset_id = u.asset_id AND e.status = 'pending'
        )
    ORDER BY d.next_attempt_at, d.file_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF d SKIP LOCKED
)
UPDATE dag_file_deletions AS d
SET status = 'deleting', attempts = d.attempts + 1, lease_epoch = d.lease_epoch + 1,
    next_attempt_at = clock_timestamp() + %(lease_seconds)s * interval '1 second'
FROM chosen
WHERE d.file_id = chosen.file_id
RETURNING d.file_id, d.lease_epoch, d.attempts, d.namespace, d.zone::text, d.container, d.path, d.unpublishing_id

-- name: needed_places
-- Of these, the places at which somebody has a file. There is none, unless a row was written past `keep_files`.
SELECT d.file_id
FROM dag_file_deletions AS d
JOIN dag_blob_assets AS b ON b.path = d.path AND b.namespace = d.namespace AND b.zone = d.zone
    AND b.container = d.container AND b.state = 'present'
WHERE d.file_id = ANY(%(files)s)

-- name: settle_deletions
-- row: DeletionTry
UPDATE dag_file_deletions AS d
SET status = s.status, last_error = r->>{error},
    next_attempt_at = clock_timestamp() + COALESCE((r->>{delay_seconds})::float8, 0) * interval '1 second',
    settled_at = CASE WHEN s.status IN ('deleted', 'kept', 'dead') THEN clock_timestamp() END
FROM jsonb_array_elements(%(tries)s::jsonb) AS r, LATERAL (SELECT (r->>{status})::deletion_status AS status) AS s
WHERE d.file_id = r->>{file_id} AND d.lease_epoch = (r->>{lease_epoch})::bigint AND d.status = 'deleting'
RETURNING d.file_id

-- name: complete_unpublishings
-- Once none of their files and tables is left to delete. A dead one leaves them partial until somebody revives it.
UPDATE dag_unpublishings AS u
SET completed_at = clock_timestamp(),
    status = CASE WHEN EXISTS (
            SELECT FROM dag_file_deletions AS d WHERE d.unpublishing_id = u.unpublishing_id AND d.status = 'dead'
        ) THEN 'partial'::unpublishing_status ELSE 'completed'::unpublishing_status END
WHERE u.unpublishing_id = ANY(%(unpublishings)s) AND u.status IN ('pending', 'partial') AND NOT EXISTS (
    SELECT FROM dag_file_deletions AS d
    WHERE d.unpublishing_id = u.unpublishing_id AND d.status IN ('pending', 'deleting')
) AND NOT EXISTS (
    SELECT FROM dag_data_tables AS t WHERE t.unpublishing_id = u.unpublishing_id AND t.state = 'dropping'
)

-- name: bury_deletion
INSERT INTO dag_dead_letters (dead_letter_id, namespace, reason, error_message, body)
VALUES (%(letter)s, %(namespace)s, %(reason)s, %(error)s, %(body)s::jsonb)
ON CONFLICT (dead_letter_id) DO NOTHING

-- name: revive_deletion
UPDATE dag_file_deletions
SET status = 'pending', attempts = 0, settled_at = NULL, next_attempt_at = clock_timestamp(),
    lease_epoch = lease_epoch + 1
WHERE namespace = %(namespace)s AND file_id = %(file_id)s AND status = 'dead'

-- name: find_deletions
SELECT 1 FROM dag_file_deletions WHERE file_id = ANY(%(files)s) LIMIT 1

-- name: keep_files
-- A file that has just been recorded at these places is kept, unless its deletion has begun.
UPDATE dag_file_deletions
SET status = 'kept', settled_at = clock_timestamp(), lease_epoch = lease_epoch + 1
WHERE file_id = ANY(%(files)s) AND status IN ('pending', 'dead')
RETURNING unpublishing_id

-- name: vanished_files
-- Of these places, those whose file is being deleted, or was deleted after the node's attempt was handed out: its task
-- may have found the file and not written it again. When exactly a task started is not known; that is before it.
SELECT d.container || '/' || d.path
FROM dag_file_deletions AS d
WHERE d.file_id = ANY(%(files)s) AND (
    d.status = 'deleting' OR (
        d.status = 'deleted' AND d.settled_at >= (
            SELECT COALESCE(n.dispatched_at, n.created_at) FROM dag_node_states AS n
            WHERE n.job_id = %(job_id)s AND n.node_id = %(node_id)s
        )
    )
)
LIMIT 1
