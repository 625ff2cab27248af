-- name: finished_job
SELECT
    job_id, namespace, workflow_id, workflow_version, workflow_hash, status, input_params, priority, fairness_key,
    root_job_id, correlation_id, callback_url, request_id, asset_id, revision
FROM dag_jobs
WHERE job_id = %(job_id)s AND namespace = %(namespace)s

-- name: keep_job
SELECT 1 FROM dag_jobs WHERE job_id = %(job_id)s FOR KEY SHARE

-- name: node_outcomes
-- Nodes of the definition; the children of fan-outs are asked for by themselves.
SELECT node_id, status, COALESCE(reused_task_id, task_id) AS task_id, output
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id IS NULL

-- name: finished_children
SELECT fan_out_index, COALESCE(reused_task_id, task_id)
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id = %(fan_out)s AND fan_out_index > %(after)s AND status = 'completed'
ORDER BY fan_out_index
LIMIT %(limit)s

-- name: warnings_of_tasks
SELECT warnings FROM dag_task_results
WHERE task_id = ANY(%(tasks)s) AND status = 'completed' AND warnings IS NOT NULL

-- name: fan_out_totals
SELECT n.job_id, n.node_id, (n.output->>'total')::int
FROM unnest(%(jobs)s::text[], %(nodes)s::text[]) AS w (job_id, node_id)
JOIN dag_node_states AS n ON n.job_id = w.job_id AND n.node_id = w.node_id
WHERE n.output IS NOT NULL

-- name: taken_over_from
-- The job that this one reruns, and what it did again.
SELECT rerun_of, metadata->'rerun'->'again' FROM dag_jobs WHERE job_id = %(job_id)s AND rerun_of IS NOT NULL

-- name: record_rerun
-- The job has ended, so nobody else mints its numbers; the caller holds the lock that orders reruns of it.
INSERT INTO dag_job_events (job_id, seq, created_at, namespace, event_type, event_status, source_app, event_data)
SELECT
    %(job_id)s::text,
    COALESCE((SELECT e.seq FROM dag_job_events AS e WHERE e.job_id = %(job_id)s::text ORDER BY e.seq DESC LIMIT 1), 0) + 1,
    clock_timestamp(), %(namespace)s, 'job_rerun', 'info', %(source_app)s,
    jsonb_build_object('as', %(new_job_id)s::text, 'by', %(issued_by)s::text)
