-- name: dag_gateway_requests
-- What a request has come to, without what was asked for. A column that nobody selects costs nothing. `request_id` is
-- what its client calls it.
SELECT
    r.namespace, COALESCE(r.client_request_id, r.request_id) AS request_id, r.request_id AS platform_request_id,
    r.client_id, r.platform_id, r.payload->'platform_refs' AS platform_refs, r.labels, r.workflow_id,
    r.asset_id, r.revision, r.job_id, r.submitted_by, r.idempotency_key, r.created_at AS submitted_at,
    j.status::text AS job_status, j.completed_at, j.updated_at AS job_updated_at,
    CASE WHEN j.rerun_of IS NOT NULL THEN j.idempotency_key END AS retry_key, j.result_data, j.error, j.error_message, j.warnings,
    j.status = 'running' AND EXISTS (SELECT FROM dag_waiting_approvals AS w WHERE w.job_id = j.job_id) AS is_waiting,
    j.completed_at IS NULL AND (
        j.ending = 'cancelled' OR EXISTS (
            SELECT FROM dag_job_commands AS c
            WHERE c.job_id = j.job_id AND c.applied_at IS NULL AND c.kind = 'cancel'
        )
    ) IS TRUE AS is_cancelling,
    v.status::text AS revision_status, v.completed_at AS revision_completed_at, v.outputs,
    v.error AS revision_error, v.error_message AS revision_error_message, v.warnings AS revision_warnings,
    v.review_state::text AS review_state, v.clearance::text AS clearance, v.version_label, v.content_hash,
    v.decision_reason, v.decided_at, a.kind::text AS kind, a.current_revision, a.deleted_at IS NOT NULL AS is_deleted,
    v.unpublished_at IS NOT NULL AS is_unpublished, (
        SELECT NULLIF(w.definition->'outputs', 'null') IS NOT NULL FROM dag_workflows AS w
        WHERE w.namespace = j.namespace AND w.workflow_id = j.workflow_id AND w.version = j.workflow_version
            AND w.hash = j.workflow_hash
    ) AS names_outputs
FROM dag_api_requests AS r
LEFT JOIN dag_jobs AS j ON j.job_id = r.job_id
LEFT JOIN dag_asset_revisions AS v
    ON v.namespace = r.namespace AND v.asset_id = r.asset_id AND v.revision = r.revision
LEFT JOIN dag_geospatial_assets AS a ON a.namespace = r.namespace AND a.asset_id = r.asset_id

-- name: dag_gateway_progress
-- The nodes of the definition only, found by their names: a job may have 500,000 children. A fan-out counts by the
-- completed share of its children, unless they are too many to be counted for every poll; whether some have failed is
-- not known then.
SELECT j.job_id, p.percent, p.done_steps, p.steps, p.failed_parts, GREATEST(j.updated_at, p.updated_at) AS updated_at
FROM dag_jobs AS j
JOIN dag_workflows AS w
    ON w.namespace = j.namespace AND w.workflow_id = j.workflow_id AND w.version = j.workflow_version
    AND w.hash = j.workflow_hash
CROSS JOIN LATERAL (
    SELECT
        LEAST(floor(1000 * sum(
            CASE
                WHEN n.status IN ('completed', 'skipped') THEN 1
                WHEN f.total BETWEEN 1 AND 2000 THEN c.completed::float8 / f.total
                ELSE 0
            END
        ) / count(*)) / 10, 99.9)::float8 AS percent,
        count(*) FILTER (WHERE n.status IN ('completed', 'skipped')) AS done_steps, count(*) AS steps,
        CASE WHEN COALESCE(max(f.total), 0) <= 2000 THEN COALESCE(sum(c.failed), 0)::bigint END AS failed_parts,
        max(n.updated_at) AS updated_at
    FROM dag_node_states AS n
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n.output ? 'dynamic_nodes' THEN (n.output->>'total')::int ELSE 0 END AS total
    ) AS f
    LEFT JOIN LATERAL (
        SELECT count(*) FILTER (WHERE c.status = 'completed') AS completed,
            count(*) FILTER (WHERE c.status = 'failed') AS failed
        FROM dag_node_states AS c
        WHERE c.job_id = n.job_id AND c.parent_node_id = n.node_id AND f.total BETWEEN 1 AND 2000
    ) AS c ON true
    WHERE n.job_id = j.job_id AND n.node_id = ANY(ARRAY(SELECT jsonb_object_keys(w.definition->'nodes')))
) AS p

-- name: dag_gateway_keys
-- Keys that may be used at the gateway, each with what its client may use. The secret is a hash of 256 random bits.
SELECT
    k.key_id, k.secret_hash, k.namespace, k.name AS client_id, k.scopes, k.expires_at, k.revoked_at, k.max_priority,
    COALESCE(c.active, true) AS is_active, COALESCE(c.quotas, '{}'::jsonb) AS quotas
FROM dag_api_keys AS k
LEFT JOIN dag_clients AS c ON c.namespace = k.namespace AND c.client_id = k.name
WHERE k.kind = 'key' AND k.scopes ?| ARRAY['b2b', 'ops', 'reviewer', 'admin']

-- name: dag_gateway_identities
-- Whose tokens are those of a client, each with what its client may use.
SELECT
    i.identity_id, i.namespace, i.client_id, i.issuer, i.kind, i.value, i.scopes, i.expires_at,
    COALESCE(c.active, true) AS is_active, COALESCE(c.quotas, '{}'::jsonb) AS quotas
FROM dag_client_identities AS i
LEFT JOIN dag_clients AS c ON c.namespace = i.namespace AND c.client_id = i.client_id

-- name: dag_gateway_assets
-- One row per client and asset that it has ordered.
SELECT
    r.namespace, r.client_id, a.asset_id, a.platform_id, a.platform_refs, a.kind::text AS kind,
    a.processing_status::text AS processing_status, a.latest_revision, a.current_revision,
    a.approval_state::text AS approval_state, a.classification::text AS clearance, a.created_at, a.updated_at,
    a.deleted_at
FROM (
    SELECT DISTINCT namespace, client_id, asset_id FROM dag_api_requests WHERE asset_id IS NOT NULL
) AS r
JOIN dag_geospatial_assets AS a ON a.namespace = r.namespace AND a.asset_id = r.asset_id

-- name: dag_gateway_versions
SELECT
    namespace, asset_id, revision, version_label, status::text AS status, review_state::text AS review_state,
    clearance::text AS clearance, content_hash, created_by, created_at, completed_at, decided_at, decision_reason
FROM dag_asset_revisions

-- name: dag_gateway_gates
-- Approval nodes of jobs that make a revision, and that wait for a reviewer now.
SELECT j.namespace, j.asset_id, j.revision, w.job_id, w.node_id, w.message, w.approvers, w.requested_at, w.deadline_at
FROM dag_waiting_approvals AS w
JOIN dag_jobs AS j ON j.job_id = w.job_id
WHERE j.asset_id IS NOT NULL

-- name: dag_gateway_outputs
-- What addresses of services are made of: the items, the tables and the data files of a revision.
SELECT
    namespace, asset_id, revision, collection_id, item_id, NULL::text AS table_name, NULL::text AS container,
    NULL::text AS path
FROM dag_revision_items
UNION ALL
SELECT namespace, asset_id, revision, NULL, NULL, table_name, NULL, NULL
FROM dag_data_tables
WHERE role <> 'view' AND state = 'present' AND asset_id IS NOT NULL
UNION ALL
SELECT namespace, asset_id, revision, NULL, NULL, NULL, container, path
FROM dag_blob_assets
WHERE role = 'data' AND state = 'present' AND asset_id IS NOT NULL

-- name: dag_gateway_files
-- What a result consists of, as files: of a revision, or of a job that makes no asset.
SELECT namespace, asset_id, revision, job_id, blob_id, path, size_bytes, sha256, media_type
FROM dag_blob_assets
WHERE role = 'data' AND state = 'present'

-- name: dag_gateway_platforms
SELECT namespace, platform_id, identity_refs, optional_refs, version_ref, review::text AS review
FROM dag_platforms
WHERE active

-- name: dag_gateway_workflows
-- What can be ordered: the newest version of each workflow that takes jobs.
SELECT DISTINCT ON (namespace, workflow_id)
    namespace, workflow_id, version, definition->>'name' AS name, definition->>'description' AS description,
    definition->>'produces' AS produces, definition->'inputs' AS inputs,
    ARRAY(SELECT jsonb_object_keys(NULLIF(definition->'outputs', 'null')) ORDER BY 1) AS output_names
FROM dag_workflows
WHERE superseded_at IS NULL AND retired_at IS NULL
ORDER BY namespace, workflow_id, version DESC
