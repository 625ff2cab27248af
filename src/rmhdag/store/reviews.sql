-- part: content
-- What a revision has published so far: its data files; its items, if it has no files; else nothing.
COALESCE(
    (
        SELECT encode(sha256(convert_to(string_agg('data ' || b.sha256, E'\n' ORDER BY b.sha256), 'UTF8')), 'hex')
        FROM dag_blob_assets AS b
        WHERE b.namespace = v.namespace AND b.asset_id = v.asset_id AND b.revision = v.revision AND b.role = 'data'
    ),
    (
        SELECT encode(sha256(convert_to(string_agg(
            concat('item ', i.collection_id, '/', i.item_id, ' ', md5(i.body::text)), E'\n'
            ORDER BY i.collection_id, i.item_id), 'UTF8')), 'hex')
        FROM dag_revision_items AS i
        WHERE i.namespace = v.namespace AND i.asset_id = v.asset_id AND i.revision = v.revision
    ),
    encode(sha256(''), 'hex')
)

-- part: snapshot
-- The row of a revision as it goes into the audit trail: without what may be large.
to_jsonb(v) - '{outputs,footprint,made_by,catalogue,warnings,error,error_message,params_digest}'::text[]

-- name: read_review
-- The caller holds the asset's lock. A namespace without a row for the platform uses that of `default`.
SELECT
    a.latest_revision, a.deleted_at IS NOT NULL, a.current_revision, v.status, v.review_state, v.clearance,
    v.content_hash, COALESCE(p.review, d.review, 'none')::text,
    ARRAY(
        SELECT v.created_by
        UNION SELECT q.submitted_by FROM dag_api_requests AS q
        WHERE q.namespace = v.namespace AND q.asset_id = v.asset_id AND q.revision = v.revision
    ),
    v.job_id,
    ARRAY(SELECT w.node_id FROM dag_waiting_approvals AS w WHERE w.job_id = v.job_id),
-- include: snapshot
FROM dag_asset_revisions AS v
JOIN dag_geospatial_assets AS a ON a.namespace = v.namespace AND a.asset_id = v.asset_id
LEFT JOIN dag_platforms AS p ON p.namespace = v.namespace AND p.platform_id = a.platform_id
LEFT JOIN dag_platforms AS d ON d.namespace = 'default' AND d.platform_id = a.platform_id
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s

-- name: write_decision
UPDATE dag_asset_revisions AS v
SET review_state = %(state)s::approval_state,
    clearance = COALESCE(%(clearance)s::classification, v.clearance),
    decided_by = %(decided_by)s, decided_at = clock_timestamp(), decision_reason = %(reason)s,
    updated_at = clock_timestamp()
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
RETURNING
-- include: snapshot

-- name: close_open_approval
UPDATE dag_approvals
SET state = %(state)s::approval_state, decided_by = %(decided_by)s, decided_at = clock_timestamp(), reason = %(reason)s
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND decided_at IS NULL
RETURNING approval_id

-- name: add_decided_approval
-- A decision that nobody was asked for: a revocation.
INSERT INTO dag_approvals (
    approval_id, namespace, asset_id, revision, content_hash, state, requested_by, decided_by, decided_at, reason
)
VALUES (
    %(approval_id)s, %(namespace)s, %(asset_id)s, %(revision)s, %(content_hash)s, %(state)s::approval_state,
    %(decided_by)s, %(decided_by)s, clock_timestamp(), %(reason)s
)

-- name: open_review
-- While its job runs, a review that is open stays as it is; once the revision is completed, it is about that content.
WITH content AS (
    SELECT
        v.namespace, v.asset_id, v.revision, v.created_by, v.completed_at IS NOT NULL AS is_completed,
        CASE WHEN v.completed_at IS NOT NULL AND v.content_hash IS NOT NULL THEN v.content_hash ELSE
-- include: content
        END AS content_hash
    FROM dag_asset_revisions AS v
    WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
        AND v.review_state = 'pending_review'
), bound AS (
UPDATE dag_asset_revisions AS v
SET content_hash = c.content_hash
FROM content AS c
WHERE v.namespace = c.namespace AND v.asset_id = c.asset_id AND v.revision = c.revision AND c.is_completed
    AND v.content_hash IS NULL
), moved AS (
    UPDATE dag_approvals AS a
    SET state = 'superseded', decided_at = clock_timestamp(), reason = 'its job has published other content since'
    FROM content AS c
    WHERE a.namespace = c.namespace AND a.asset_id = c.asset_id AND a.revision = c.revision AND a.decided_at IS NULL
        AND c.is_completed AND a.content_hash <> c.content_hash
)
INSERT INTO dag_approvals (approval_id, namespace, asset_id, revision, content_hash, requested_by, message)
SELECT
    %(approval_id)s, c.namespace, c.asset_id, c.revision, c.content_hash, COALESCE(%(requested_by)s::text, c.created_by),
    %(message)s
FROM content AS c
WHERE NOT EXISTS (
    SELECT FROM dag_approvals AS a
    WHERE a.namespace = c.namespace AND a.asset_id = c.asset_id AND a.revision = c.revision AND a.decided_at IS NULL
        AND (a.content_hash = c.content_hash OR NOT c.is_completed)
)

-- name: reopen_if_moved
-- What was approved while the job ran is not what the revision has become.
UPDATE dag_asset_revisions AS v
SET review_state = 'pending_review', clearance = 'undecided', decided_by = NULL, decided_at = NULL,
    decision_reason = NULL
FROM (
    SELECT
-- include: content
        AS content_hash
    FROM dag_asset_revisions AS v
    WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
) AS c
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
    AND v.review_state = 'approved' AND v.completed_at IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM dag_approvals AS a
        WHERE a.namespace = v.namespace AND a.asset_id = v.asset_id AND a.revision = v.revision
            AND a.state = 'approved' AND a.content_hash = c.content_hash
    )
RETURNING
-- include: snapshot

-- name: bind_content
-- Of a revision without data files that was approved while its job ran.
UPDATE dag_asset_revisions AS v
SET content_hash = (
        SELECT a.content_hash FROM dag_approvals AS a
        WHERE a.namespace = v.namespace AND a.asset_id = v.asset_id AND a.revision = v.revision
            AND a.state = 'approved'
        ORDER BY a.decided_at DESC LIMIT 1
    )
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
    AND v.content_hash IS NULL AND v.review_state = 'approved'

-- name: drop_open_approvals
-- Of a revision that ended without content: there is nothing to decide about.
DELETE FROM dag_approvals
WHERE namespace = %(namespace)s AND asset_id = %(asset_id)s AND revision = %(revision)s AND decided_at IS NULL

-- name: begin_review
-- A job asks for a review of the revision that it is making.
UPDATE dag_asset_revisions AS v
SET review_state = 'pending_review', updated_at = clock_timestamp()
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s
    AND v.review_state = 'none' AND v.completed_at IS NULL

-- name: pending_reviews
-- Those that a new revision closes.
SELECT v.revision
FROM dag_asset_revisions AS v
WHERE v.namespace = %(namespace)s AND v.asset_id = %(asset_id)s AND v.revision < %(revision)s
    AND v.review_state = 'pending_review'
ORDER BY v.revision

-- name: may_review
-- Whether the holder of a key with this name may decide.
SELECT EXISTS (
    SELECT FROM dag_api_keys AS k
    WHERE k.namespace = %(namespace)s AND k.name = %(name)s AND k.kind = 'key' AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
        AND jsonb_exists_any(k.scopes, ARRAY['reviewer', 'admin'])
)

-- name: submitter_of_job
SELECT namespace, submitted_by FROM dag_jobs WHERE job_id = %(job_id)s

-- name: revision_of_job
SELECT v.namespace, v.asset_id, v.revision
FROM dag_jobs AS j
JOIN dag_asset_revisions AS v ON v.namespace = j.namespace AND v.asset_id = j.asset_id AND v.revision = j.revision
WHERE j.job_id = %(job_id)s AND j.namespace = %(namespace)s AND v.review_state <> 'none'
