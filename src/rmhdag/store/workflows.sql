-- name: current_workflow
SELECT workflow_id, version, hash, definition
FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL
    AND (%(version)s::int IS NULL OR version = %(version)s)
ORDER BY version DESC
LIMIT 1

-- name: list_workflows
SELECT DISTINCT ON (workflow_id) workflow_id, version, hash, registered_by, registered_at
FROM dag_workflows
WHERE namespace = %(namespace)s AND superseded_at IS NULL
ORDER BY workflow_id, version DESC

-- name: supersede_workflow
UPDATE dag_workflows SET superseded_at = clock_timestamp()
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND version = %(version)s AND hash <> %(hash)s
    AND superseded_at IS NULL

-- name: register_workflow
INSERT INTO dag_workflows (namespace, workflow_id, version, hash, registered_by, definition, layout)
VALUES (
    %(namespace)s, %(workflow_id)s, %(version)s, %(hash)s, %(registered_by)s, %(definition)s::jsonb, %(layout)s::jsonb
)
ON CONFLICT (namespace, workflow_id, version, hash) DO UPDATE SET superseded_at = NULL
