-- name: expired_jobs
-- A page of the jobs that are old enough, by namespace and end, and why each has to stay, or null. The index (namespace,
-- completed_at) answers it with one probe per namespace, in its own order: no other index does, so none is taken while
-- the table is small. Those that have to stay are passed by. Metrics must have summed a job up before it goes.
SELECT
    m.namespace, j.completed_at, j.job_id,
    CASE
        WHEN EXISTS (
            SELECT FROM dag_jobs AS r
            WHERE r.root_job_id = j.root_job_id AND r.rerun_of IS NOT NULL AND r.job_id <> j.job_id
                AND (r.completed_at IS NULL OR r.completed_at >= clock_timestamp() - %(days)s * interval '1 day')
        ) THEN 'a younger rerun uses its results'
        WHEN EXISTS (
            SELECT FROM dag_jobs AS p
            WHERE p.job_id = j.parent_job_id
                AND (p.completed_at IS NULL OR p.completed_at >= clock_timestamp() - %(days)s * interval '1 day')
        ) THEN 'its parent job is still kept'
        WHEN EXISTS (SELECT FROM dag_callbacks AS c WHERE c.job_id = j.job_id AND c.status = 'pending')
        THEN 'a callback is still to be sent'
    END AS stays_because
FROM dag_rollup_marks AS m
CROSS JOIN LATERAL (
    SELECT e.job_id, e.completed_at, e.root_job_id, e.parent_job_id
    FROM dag_jobs AS e
    WHERE e.namespace = m.namespace AND e.completed_at IS NOT NULL
        AND e.completed_at <= LEAST(m.rolled_up_to, clock_timestamp() - %(days)s * interval '1 day')
        AND e.completed_at
            >= CASE WHEN m.namespace = %(namespace)s THEN %(completed_at)s::timestamptz ELSE '-infinity' END
    ORDER BY e.completed_at
    LIMIT %(limit)s
) AS j
WHERE m.namespace >= %(namespace)s
ORDER BY m.namespace, j.completed_at
LIMIT %(limit)s

-- name: is_waiting_for_metrics
-- Jobs that would be deleted by now, had they been summed up.
SELECT EXISTS (
    SELECT FROM dag_rollup_marks AS m
    CROSS JOIN LATERAL (
        SELECT FROM dag_jobs AS j
        WHERE j.namespace = m.namespace AND j.completed_at IS NOT NULL AND j.completed_at > m.rolled_up_to
            AND j.completed_at < clock_timestamp() - %(days)s * interval '1 day' - interval '10 minutes'
        LIMIT 1
    ) AS waiting
)

-- name: lock_expired_jobs
-- Another orchestrator at them, or somebody who reruns one: these are left for the next pass.
SELECT job_id FROM dag_jobs WHERE job_id = ANY(%(jobs)s) ORDER BY job_id FOR UPDATE SKIP LOCKED

-- name: count_jobs_not_summed_up
-- Jobs that are old enough and that metrics have not counted.
SELECT count(*) FROM (
    SELECT FROM dag_rollup_marks AS m
    JOIN dag_jobs AS j ON j.namespace = m.namespace AND j.completed_at IS NOT NULL AND j.completed_at > m.rolled_up_to
    WHERE j.completed_at <= clock_timestamp() - %(days)s * interval '1 day'
    LIMIT %(limit)s
) AS waiting

-- name: count_pruned_jobs
SELECT count(*) FROM (SELECT FROM dag_pruned_jobs LIMIT %(limit)s) AS left_over

-- name: take_out_jobs
-- Asked again under the lock: a rerun that was committed after the page was read keeps its job. A revision that users
-- may see keeps what made it; the stored values among its parameters are the caller's to keep.
WITH gone AS (
    DELETE FROM dag_jobs AS j
    WHERE j.job_id = ANY(%(jobs)s) AND j.completed_at IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM dag_jobs AS r
            WHERE r.root_job_id = j.root_job_id AND r.rerun_of IS NOT NULL AND r.job_id <> j.job_id
                AND (r.completed_at IS NULL OR r.completed_at >= clock_timestamp() - %(days)s * interval '1 day')
        )
    RETURNING j.job_id, j.namespace, j.workflow_id, j.workflow_version, j.workflow_hash, j.input_params,
        j.submitted_by, j.rerun_of, j.started_at, j.completed_at
),
marked AS (
    INSERT INTO dag_pruned_jobs (job_id, namespace) SELECT job_id, namespace FROM gone
),
kept AS (
    UPDATE dag_asset_revisions AS v
    SET made_by = jsonb_build_object(
        'workflow_id', gone.workflow_id, 'workflow_version', gone.workflow_version,
        'workflow_hash', gone.workflow_hash, 'input_params', gone.input_params, 'submitted_by', gone.submitted_by,
        'rerun_of', gone.rerun_of, 'started_at', gone.started_at, 'completed_at', gone.completed_at
    )
    FROM gone
    WHERE v.job_id = gone.job_id AND v.status = 'completed'
    RETURNING v.job_id, v.asset_id, v.revision, gone.input_params
)
SELECT gone.namespace, kept.asset_id, kept.revision, kept.input_params
FROM gone
LEFT JOIN kept ON kept.job_id = gone.job_id

-- name: lock_pruned_jobs
SELECT job_id, namespace FROM dag_pruned_jobs ORDER BY job_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: delete_nodes
-- Rows are deleted by key and not by place: one that is changed at this moment is deleted all the same.
DELETE FROM dag_node_states AS n
USING (
    SELECT o.job_id, o.node_id FROM dag_node_states AS o WHERE o.job_id = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE n.job_id = bite.job_id AND n.node_id = bite.node_id

-- name: delete_results
-- Of all attempts and leases: a job's tasks are one range of the key.
DELETE FROM dag_task_results AS r
USING (
    SELECT o.task_id, o.lease_epoch
    FROM unnest(%(jobs)s::text[]) AS j
    JOIN dag_task_results AS o ON o.task_id >= j || '-' AND o.task_id < j || '.'
    LIMIT %(limit)s
) AS bite
WHERE r.task_id = bite.task_id AND r.lease_epoch = bite.lease_epoch

-- name: delete_checkpoints
DELETE FROM dag_checkpoints AS c
USING (
    SELECT o.checkpoint_id FROM dag_checkpoints AS o WHERE o.job_id = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE c.checkpoint_id = bite.checkpoint_id

-- name: delete_commands
DELETE FROM dag_job_commands AS c
USING (
    SELECT o.command_id
    FROM unnest(%(jobs)s::text[], %(namespaces)s::text[]) AS j (job_id, namespace)
    JOIN dag_job_commands AS o ON o.namespace = j.namespace AND o.job_id = j.job_id
    LIMIT %(limit)s
) AS bite
WHERE c.command_id = bite.command_id

-- name: delete_labels
DELETE FROM dag_job_labels AS l
USING (
    SELECT o.job_id, o.key FROM dag_job_labels AS o WHERE o.job_id = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE l.job_id = bite.job_id AND l.key = bite.key

-- name: delete_callbacks
DELETE FROM dag_callbacks AS c
USING (
    SELECT o.callback_id FROM dag_callbacks AS o WHERE o.job_id = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE c.callback_id = bite.callback_id

-- name: delete_queued
-- Of a job that ended by force: nobody would want the outcome.
DELETE FROM dag_queue_messages AS q
USING (
    SELECT o.task_id FROM dag_queue_messages AS o WHERE o.job_id = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE q.task_id = bite.task_id

-- name: delete_requests
-- Those that ordered an asset belong to its history.
DELETE FROM dag_api_requests AS r
USING (
    SELECT o.namespace, o.request_id FROM dag_api_requests AS o
    WHERE o.job_id = ANY(%(jobs)s) AND o.asset_id IS NULL
    LIMIT %(limit)s
) AS bite
WHERE r.namespace = bite.namespace AND r.request_id = bite.request_id

-- name: delete_lineage
DELETE FROM dag_dataset_refs AS r
USING (
    SELECT o.ref_id FROM dag_dataset_refs AS o
    WHERE o.job_id = ANY(%(jobs)s) AND o.asset_id IS NULL
    LIMIT %(limit)s
) AS bite
WHERE r.ref_id = bite.ref_id

-- name: delete_items
-- Of revisions that did not complete: without the job there is no rerun that could use them. Others are for rollbacks.
DELETE FROM dag_revision_items AS i
USING (
    SELECT o.namespace, o.asset_id, o.revision, o.collection_id, o.item_id
    FROM dag_revision_items AS o
    WHERE o.job_id = ANY(%(jobs)s)
        AND NOT EXISTS (
            SELECT FROM dag_asset_revisions AS v
            WHERE v.namespace = o.namespace AND v.asset_id = o.asset_id AND v.revision = o.revision
                AND v.status = 'completed'
        )
    LIMIT %(limit)s
) AS bite
WHERE i.namespace = bite.namespace AND i.asset_id = bite.asset_id AND i.revision = bite.revision
    AND i.collection_id = bite.collection_id AND i.item_id = bite.item_id

-- name: delete_payload_uses
DELETE FROM dag_payload_uses AS u
USING (
    SELECT o.namespace, o.sha256, o.holder FROM dag_payload_uses AS o WHERE o.holder = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE u.namespace = bite.namespace AND u.sha256 = bite.sha256 AND u.holder = bite.holder

-- name: delete_events
DELETE FROM dag_job_events AS e
USING (
    SELECT o.job_id, o.seq, o.created_at FROM dag_job_events AS o WHERE o.job_id = ANY(%(jobs)s) LIMIT %(limit)s
) AS bite
WHERE e.job_id = bite.job_id AND e.seq = bite.seq AND e.created_at = bite.created_at

-- name: delete_logs
DELETE FROM dag_task_logs AS l
USING (
    SELECT o.task_id, o.lease_epoch, o.chunk_index, o.created_at
    FROM unnest(%(jobs)s::text[]) AS j
    JOIN dag_task_logs AS o ON o.task_id >= j || '-' AND o.task_id < j || '.'
    LIMIT %(limit)s
) AS bite
WHERE l.task_id = bite.task_id AND l.lease_epoch = bite.lease_epoch AND l.chunk_index = bite.chunk_index
    AND l.created_at = bite.created_at

-- name: forget_pruned_jobs
DELETE FROM dag_pruned_jobs WHERE job_id = ANY(%(jobs)s)

-- name: oldest_job
-- From one namespace to the next by the index.
WITH RECURSIVE first AS (
    (SELECT namespace, created_at FROM dag_jobs ORDER BY namespace, created_at, job_id LIMIT 1)
    UNION ALL
    SELECT following.namespace, following.created_at
    FROM first
    CROSS JOIN LATERAL (
        SELECT j.namespace, j.created_at FROM dag_jobs AS j
        WHERE j.namespace > first.namespace
        ORDER BY j.namespace, j.created_at, j.job_id
        LIMIT 1
    ) AS following
)
SELECT min(created_at) FROM first

-- name: try_lock
-- One orchestrator at a time; the others do not wait. Until the end of the transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('rmhdag retention ' || current_schema() || ' ' || %(what)s, 0))

-- name: delete_old_orchestrator_events
-- They are numbered as they come: the first thousand are the oldest.
DELETE FROM dag_orchestrator_events AS e
USING (
    SELECT f.event_id
    FROM (
        SELECT o.event_id, o.created_at FROM dag_orchestrator_events AS o ORDER BY o.event_id LIMIT %(limit)s
    ) AS f
    WHERE f.created_at < clock_timestamp() - %(days)s * interval '1 day'
) AS bite
WHERE e.event_id = bite.event_id

-- name: delete_old_dead_letters
DELETE FROM dag_dead_letters AS d
USING (
    SELECT o.dead_letter_id FROM dag_dead_letters AS o
    WHERE o.created_at < clock_timestamp() - %(days)s * interval '1 day'
    ORDER BY o.created_at
    LIMIT %(limit)s
) AS bite
WHERE d.dead_letter_id = bite.dead_letter_id

-- name: delete_old_outbox_rows
DELETE FROM dag_outbox AS m
USING (
    SELECT o.message_id FROM dag_outbox AS o
    WHERE o.settled_at < clock_timestamp() - %(days)s * interval '1 day'
    ORDER BY o.settled_at
    LIMIT %(limit)s
) AS bite
WHERE m.message_id = bite.message_id

-- name: delete_old_catalogue_entries
-- Only when the catalogue shows it no more: what could not be removed there has to be tried again.
DELETE FROM dag_catalogue_entries AS c
USING (
    SELECT o.namespace, o.collection_id, o.item_id FROM dag_catalogue_entries AS o
    WHERE o.removed AND o.status = 'published' AND o.changed_at < clock_timestamp() - %(days)s * interval '1 day'
    ORDER BY o.changed_at
    LIMIT %(limit)s
) AS bite
WHERE c.namespace = bite.namespace AND c.collection_id = bite.collection_id AND c.item_id = bite.item_id
    AND c.removed AND c.status = 'published'

-- name: delete_old_joined_requests
-- A revision's history needs the request that made it; those that joined it are as many as clients care to send.
DELETE FROM dag_api_requests AS r
USING (
    SELECT o.namespace, o.request_id FROM dag_api_requests AS o
    WHERE o.joined AND o.created_at < clock_timestamp() - %(days)s * interval '1 day'
        AND NOT EXISTS (SELECT FROM dag_jobs AS j WHERE j.job_id = o.job_id)
    ORDER BY o.created_at
    LIMIT %(limit)s
) AS bite
WHERE r.namespace = bite.namespace AND r.request_id = bite.request_id

-- name: delete_old_api_keys
DELETE FROM dag_api_keys AS k
USING (
    SELECT o.key_id FROM dag_api_keys AS o
    WHERE LEAST(o.revoked_at, o.expires_at)
        < clock_timestamp() - CASE o.kind WHEN 'key' THEN %(days)s ELSE 1 END * interval '1 day'
    LIMIT %(limit)s
) AS bite
WHERE k.key_id = bite.key_id

-- name: delete_old_workflows
-- A content that was superseded can be that of older jobs only. The root of a rerun is one of them, and stays with it.
DELETE FROM dag_workflows AS w
USING (
    SELECT o.namespace, o.workflow_id, o.version, o.hash FROM dag_workflows AS o
    WHERE o.superseded_at < clock_timestamp() - %(days)s * interval '1 day'
        AND NOT EXISTS (
            SELECT FROM dag_jobs AS j
            WHERE j.namespace = o.namespace AND j.workflow_id = o.workflow_id
                AND j.created_at < o.superseded_at + interval '1 day'
        )
    LIMIT %(limit)s
) AS bite
WHERE w.namespace = bite.namespace AND w.workflow_id = bite.workflow_id AND w.version = bite.version
    AND w.hash = bite.hash
