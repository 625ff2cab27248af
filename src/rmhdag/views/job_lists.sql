-- name: workflows_named
-- From one name to the next, each by one look into the index: there may be a million jobs and ten names.
WITH RECURSIVE names AS (
    (
        SELECT workflow_id AS name
        FROM dag_jobs
        WHERE namespace = %(namespace)s AND workflow_id >= %(q)s AND workflow_id < %(q_end)s
        ORDER BY workflow_id
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.workflow_id
        FROM dag_jobs AS j
        WHERE j.namespace = %(namespace)s AND j.workflow_id > names.name AND j.workflow_id < %(q_end)s
        ORDER BY j.workflow_id
        LIMIT 1
    )
    FROM names
    WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT %(most)s

-- name: submitters_named
-- As the workflows above.
WITH RECURSIVE names AS (
    (
        SELECT submitted_by AS name
        FROM dag_jobs
        WHERE namespace = %(namespace)s AND submitted_by >= %(q)s AND submitted_by < %(q_end)s
        ORDER BY submitted_by
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT j.submitted_by
        FROM dag_jobs AS j
        WHERE j.namespace = %(namespace)s AND j.submitted_by > names.name AND j.submitted_by < %(q_end)s
        ORDER BY j.submitted_by
        LIMIT 1
    )
    FROM names
    WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT %(most)s

-- name: jobs_named
-- Ids and correlations that begin so, as many as are looked at.
(
    SELECT job_id
    FROM dag_jobs
    WHERE job_id >= %(id)s AND job_id < %(id_end)s AND namespace = %(namespace)s
    ORDER BY job_id DESC
    LIMIT %(most)s
)
UNION
(
    SELECT job_id
    FROM dag_jobs
    WHERE namespace = %(namespace)s AND correlation_id IS NOT NULL AND correlation_id >= %(q)s
        AND correlation_id < %(q_end)s
    ORDER BY correlation_id
    LIMIT %(most)s
)
