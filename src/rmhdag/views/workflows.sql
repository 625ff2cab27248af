-- name: workflows
SELECT w.workflow_id, w.version, w.hash, w.registered_by, w.registered_at, w.retired_at, w.retired_by,
    w.definition->>'name' AS name, w.definition->>'description' AS description
FROM (
    SELECT DISTINCT ON (workflow_id) *
    FROM dag_workflows
    WHERE namespace = %(namespace)s AND superseded_at IS NULL
        AND (%(after)s::text IS NULL OR workflow_id > %(after)s)
    ORDER BY workflow_id, version DESC
) AS w
WHERE (w.retired_at IS NULL OR %(retired_too)s)
    AND (
        %(text)s::text IS NULL
        OR strpos(lower(w.workflow_id || ' ' || (w.definition->>'name')), lower(%(text)s::text)) > 0
    )
ORDER BY w.workflow_id
LIMIT %(limit)s

-- name: workflow_versions
SELECT workflow_id, version, hash, registered_by, registered_at, retired_at, retired_by, definition->>'name' AS name,
    definition->>'description' AS description
FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL
    AND (%(before)s::int IS NULL OR version < %(before)s)
ORDER BY version DESC
LIMIT %(limit)s

-- name: workflow
SELECT workflow_id, version, hash, registered_by, registered_at, retired_at, retired_by, definition->>'name' AS name,
    definition->>'description' AS description, definition, layout
FROM dag_workflows
WHERE namespace = %(namespace)s AND workflow_id = %(workflow_id)s AND superseded_at IS NULL
    AND (%(version)s::int IS NULL OR version = %(version)s)
ORDER BY version DESC
LIMIT 1
