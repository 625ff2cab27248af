-- name: insert_labels
-- Of jobs that were inserted in this transaction.
INSERT INTO dag_job_labels (job_id, key, namespace, value, created_at)
SELECT j.job_id, l.key, j.namespace, l.value, j.created_at
FROM jsonb_each(%(labels)s::jsonb) AS r (job_id, labels)
JOIN dag_jobs AS j ON j.job_id = r.job_id
CROSS JOIN LATERAL jsonb_each_text(r.labels) AS l (key, value)

-- name: labels_of
SELECT key, value FROM dag_job_labels WHERE job_id = %(job_id)s AND namespace = %(namespace)s ORDER BY key

-- name: hold_job
-- It is there and stays until the end of the transaction; its owner may go on writing it.
SELECT 1 FROM dag_jobs WHERE job_id = %(job_id)s AND namespace = %(namespace)s FOR KEY SHARE

-- name: hold_labels
-- Two who add labels at the same time would both see room for them.
SELECT pg_advisory_xact_lock(hashtextextended('rmhdag labels ' || current_schema() || ' ' || %(job_id)s, 0))

-- name: put_labels
INSERT INTO dag_job_labels AS l (job_id, key, namespace, value, created_at)
SELECT j.job_id, r.key, j.namespace, r.value, j.created_at
FROM dag_jobs AS j
CROSS JOIN LATERAL jsonb_each_text(%(labels)s::jsonb) AS r (key, value)
WHERE j.job_id = %(job_id)s AND j.namespace = %(namespace)s
ON CONFLICT (job_id, key) DO UPDATE SET value = EXCLUDED.value WHERE l.value <> EXCLUDED.value

-- name: remove_labels
DELETE FROM dag_job_labels WHERE job_id = %(job_id)s AND namespace = %(namespace)s AND key = ANY(%(keys)s)
