-- name: current_workflow
SELECT workflow_id, version, hash, definition
FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL
    AND (%(version)s::int IS NULL OR version = %(version)s)
ORDER BY version DESC
LIMIT 1

-- name: current_heads
-- row: WorkflowKey
SELECT
    (r->>{version})::int AS asked, w.workflow_id, w.version, w.hash,
    GREATEST(
        (SELECT max(updated_at) FROM dag_handlers),
        (SELECT max(updated_at) FROM dag_namespace_handlers WHERE namespace = %(namespace)s)
    ) AS handlers_at,
    w.retired_at
FROM jsonb_array_elements(%(wanted)s::jsonb) AS r
CROSS JOIN LATERAL (
    SELECT workflow_id, version, hash, retired_at
    FROM dag_workflows
    WHERE namespace = %(namespace)s AND workflow_id = r->>{workflow_id} AND superseded_at IS NULL
        AND version = COALESCE((r->>{version})::int, version)
    ORDER BY version DESC
    LIMIT 1
) AS w

-- name: supersede_workflow
UPDATE dag_workflows SET superseded_at = clock_timestamp()
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND version = %(version)s AND hash <> %(hash)s
    AND superseded_at IS NULL

-- name: retire_workflow
-- All its versions; the first time counts.
UPDATE dag_workflows
SET retired_at = COALESCE(retired_at, clock_timestamp()), retired_by = COALESCE(retired_by, %(by)s)
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL

-- name: restore_workflow
UPDATE dag_workflows SET retired_at = NULL, retired_by = NULL
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL

-- name: register_workflow
INSERT INTO dag_workflows (namespace, workflow_id, version, hash, registered_by, definition, layout)
VALUES (
    %(namespace)s, %(workflow_id)s, %(version)s, %(hash)s, %(registered_by)s, %(definition)s::jsonb, %(layout)s::jsonb
)
ON CONFLICT (namespace, workflow_id, version, hash) DO UPDATE SET superseded_at = NULL

-- name: read_layout
SELECT layout FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND version = %(version)s AND hash = %(hash)s

-- name: keep_definition
INSERT INTO dag_workflows (namespace, workflow_id, version, hash, registered_by, definition, superseded_at)
VALUES (
    %(namespace)s, %(workflow_id)s, %(version)s, %(hash)s, %(registered_by)s, %(definition)s::jsonb, clock_timestamp()
)
ON CONFLICT (namespace, workflow_id, version, hash) DO NOTHING

-- name: newest_versions
-- Of workflows that accept jobs.
SELECT w.workflow_id, w.version
FROM (
    SELECT DISTINCT ON (workflow_id) workflow_id, version, retired_at
    FROM dag_workflows
    WHERE namespace = %(namespace)s AND superseded_at IS NULL
    ORDER BY workflow_id, version DESC
) AS w
WHERE w.retired_at IS NULL
