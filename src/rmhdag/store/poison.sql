-- name: fail_poisoned_job
UPDATE dag_jobs
SET status = 'failed', error_message = %(message)s, completed_at = clock_timestamp(), version = version + 1,
    updated_at = clock_timestamp()
WHERE job_id = %(job_id)s AND owner_id = %(me)s AND owner_epoch = %(owner_epoch)s AND completed_at IS NULL

-- name: bury_inbox
WITH gone AS (DELETE FROM dag_inbox WHERE job_id = %(job_id)s RETURNING *)
INSERT INTO dag_dead_letters (dead_letter_id, namespace, reason, error_message, job_id, node_id, task_id, body)
SELECT
    'inbox-' || inbox_id, %(namespace)s, 'engine_error', %(message)s, job_id, node_id, task_id,
    jsonb_build_object('kind', kind, 'payload', payload)
FROM gone

-- name: close_nodes
UPDATE dag_node_states
SET status = 'cancelled', completed_at = clock_timestamp(), next_attempt_at = NULL, deadline_at = NULL,
    version = version + 1, updated_at = clock_timestamp()
WHERE job_id = %(job_id)s AND completed_at IS NULL

-- name: close_approvals
DELETE FROM dag_waiting_approvals WHERE job_id = %(job_id)s

-- name: drop_tasks
DELETE FROM dag_queue_messages WHERE job_id = %(job_id)s RETURNING task_id

-- name: record_failure
INSERT INTO dag_job_events (
    job_id, seq, created_at, namespace, event_type, event_status, source_app, error_message, event_data
)
SELECT
    %(job_id)s::text, COALESCE(max(seq), 0) + 1, clock_timestamp(), %(namespace)s, 'job_failed', 'failure', 'orchestrator',
    %(message)s, '{"failed_nodes": [], "error_kind": "engine_error"}'
FROM dag_job_events
WHERE job_id = %(job_id)s::text

-- name: cancel_child_jobs
-- As their parent does when it ends in an orderly way (batch.py).
INSERT INTO dag_inbox (owner_id, job_id, kind, payload)
SELECT
    COALESCE(c.owner_id, ''), c.job_id, 'command',
    jsonb_build_object(
        'kind', 'cancel', 'issued_by', 'parent job', 'body', jsonb_build_object('reason', 'the parent job has failed'))
FROM dag_jobs AS c
WHERE c.parent_job_id = %(job_id)s AND c.completed_at IS NULL

-- name: refuse_commands
UPDATE dag_job_commands
SET applied_at = clock_timestamp(), outcome = 'refused', reason = 'the job has failed: ' || %(message)s::text
WHERE job_id = %(job_id)s AND applied_at IS NULL

-- name: notify_parent
INSERT INTO dag_inbox (owner_id, job_id, kind, node_id, payload)
SELECT
    COALESCE(p.owner_id, ''), p.job_id, 'child_job_ended', j.parent_node_id,
    jsonb_build_object('child_job_id', j.job_id, 'status', 'failed', 'error_message', %(message)s::text)
FROM dag_jobs AS j
JOIN dag_jobs AS p ON p.job_id = j.parent_job_id AND p.completed_at IS NULL
WHERE j.job_id = %(job_id)s
