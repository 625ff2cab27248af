-- name: issue_command
-- One statement writes the command and the inbox row for the job's current owner. A job that has ended takes none.
WITH job AS (
    SELECT job_id, namespace, owner_id, status, completed_at IS NULL AS is_open
    FROM dag_jobs
    WHERE job_id = %(job_id)s AND namespace = %(namespace)s
),
issued AS (
    INSERT INTO dag_job_commands (command_id, namespace, job_id, kind, issued_by, body)
    SELECT %(command_id)s, namespace, job_id, %(kind)s::command_kind, %(issued_by)s, %(body)s::jsonb
    FROM job
    WHERE is_open
),
told AS (
    INSERT INTO dag_inbox (owner_id, job_id, kind, payload)
    SELECT
        COALESCE(owner_id, ''), job_id, 'command',
        jsonb_build_object(
            'kind', %(kind)s::text, 'issued_by', %(issued_by)s::text, 'body', %(body)s::jsonb,
            'command_id', %(command_id)s::text
        )
    FROM job
    WHERE is_open
    RETURNING owner_id
)
SELECT status, (
        SELECT count(pg_notify(CASE owner_id
        WHEN '' THEN 'rmhdag_jobs'
        ELSE 'rmhdag_o_' || left(encode(sha256(convert_to(owner_id, 'UTF8')), 'hex'), 24) END, '')::text)
        FROM told
    )
FROM job

-- name: read_answer
SELECT c.kind, c.outcome, c.reason, j.status, j.completed_at IS NOT NULL
FROM dag_job_commands AS c
JOIN dag_jobs AS j ON j.job_id = c.job_id
WHERE c.command_id = %(command_id)s
