-- name: insert_callbacks
-- After the jobs' rows say how they ended, in the same transaction. Who submitted by request knows no job id, and of a
-- cancelled job only that it failed; of a job whose revision waits for its review, that. Requests that joined a job are
-- told each by itself.
-- row: JobCallback
INSERT INTO dag_callbacks (callback_id, namespace, job_id, request_id, form, url, endpoint_url, host, body)
SELECT
    t.callback_id, t.namespace, t.job_id, COALESCE(t.request_id, ''), CASE WHEN t.subscriber IS NULL THEN '' ELSE 'ogc' END,
    u.url, COALESCE(substring(u.url FROM '^[^?#]+'), u.url), COALESCE(substring(u.url FROM '^[^/]*//[^/?#]+'), u.url),
    CASE WHEN t.request_id IS NULL
        THEN jsonb_build_object(
            'job_id', t.job_id, 'status', t.status, 'result_url', '/api/v1/jobs/' || t.job_id)
        ELSE jsonb_build_object(
            'request_id', t.shown_id, 'status', s.status, 'result_url', '/platform/results/' || t.shown_id)
    END || jsonb_build_object(
        'workflow_id', t.workflow_id,
        'occurred_at', to_char(t.completed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
FROM (
    SELECT
        r->>{callback_id} AS callback_id, j.namespace, j.job_id, j.request_id, j.callback_url, j.status, j.workflow_id,
        j.completed_at, j.asset_id, j.revision, q.subscriber, COALESCE(q.client_request_id, j.request_id) AS shown_id
    FROM jsonb_array_elements(%(callbacks)s::jsonb) AS r
    JOIN dag_jobs AS j ON j.job_id = r->>{job_id} AND jsonb_typeof(r) = 'array'
    LEFT JOIN dag_api_requests AS q ON q.namespace = j.namespace AND q.request_id = j.request_id
    UNION ALL
    -- Ids keep the time at their beginning, by which lists are ordered.
    SELECT
        left(r->>{callback_id}, 12) || left(md5(r->>{callback_id} || q.request_id), 20), j.namespace, j.job_id,
        q.request_id, q.callback_url,
        j.status, j.workflow_id, j.completed_at, j.asset_id, j.revision, q.subscriber,
        COALESCE(q.client_request_id, q.request_id)
    FROM jsonb_array_elements(%(callbacks)s::jsonb) AS r
    JOIN dag_jobs AS j ON j.job_id = r->>{job_id} AND jsonb_typeof(r) = 'array'
    JOIN dag_api_requests AS q
        ON q.job_id = j.job_id AND q.namespace = j.namespace AND q.request_id IS DISTINCT FROM j.request_id
) AS t
LEFT JOIN dag_asset_revisions AS v
    ON v.namespace = t.namespace AND v.asset_id = t.asset_id AND v.revision = t.revision
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN t.status = 'cancelled' THEN 'failed'
        WHEN t.status = 'completed' AND v.review_state = 'pending_review' THEN 'awaiting_approval'
        WHEN t.status = 'completed' AND v.review_state IN ('rejected', 'revoked', 'superseded') THEN 'failed'
        ELSE t.status::text END AS status
) AS s
CROSS JOIN LATERAL (
    SELECT CASE WHEN t.subscriber IS NULL THEN t.callback_url ELSE t.subscriber->>(
        CASE s.status WHEN 'completed' THEN 'success' WHEN 'failed' THEN 'failed' ELSE 'in_progress' END
    ) END AS url
) AS u
WHERE u.url IS NOT NULL AND t.completed_at IS NOT NULL
ON CONFLICT DO NOTHING

-- name: insert_start_callbacks
-- Only those are told of a start who have named an address for it. Those who joined a running job are told then.
-- row: JobCallback
INSERT INTO dag_callbacks (callback_id, namespace, job_id, request_id, occasion, form, url, endpoint_url, host, body)
SELECT
    left(r->>{callback_id}, 12) || left(md5(r->>{callback_id} || q.request_id), 20), q.namespace, q.job_id, q.request_id,
    'running', 'ogc', u.url, COALESCE(substring(u.url FROM '^[^?#]+'), u.url),
    COALESCE(substring(u.url FROM '^[^/]*//[^/?#]+'), u.url),
    jsonb_build_object(
        'request_id', COALESCE(q.client_request_id, q.request_id), 'status', 'running',
        'result_url', '/platform/results/' || COALESCE(q.client_request_id, q.request_id),
        'workflow_id', q.workflow_id,
        'occurred_at', to_char(j.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
FROM jsonb_array_elements(%(callbacks)s::jsonb) AS r
JOIN dag_jobs AS j ON j.job_id = r->>{job_id} AND jsonb_typeof(r) = 'array'
JOIN dag_api_requests AS q ON q.job_id = j.job_id AND q.namespace = j.namespace
CROSS JOIN LATERAL (SELECT q.subscriber->>'in_progress' AS url) AS u
WHERE u.url IS NOT NULL AND j.started_at IS NOT NULL
ON CONFLICT DO NOTHING

-- name: insert_decision_callbacks
-- Each request for a revision is told how its review was decided, once per decision.
INSERT INTO dag_callbacks (
    callback_id, namespace, job_id, request_id, occasion, form, url, endpoint_url, host, body
)
SELECT
    left(%(callback_id)s, 12) || left(md5(%(callback_id)s || q.request_id), 20), q.namespace, q.job_id, q.request_id,
    %(occasion)s, CASE WHEN q.subscriber IS NULL THEN '' ELSE 'ogc' END, u.url,
    COALESCE(substring(u.url FROM '^[^?#]+'), u.url), COALESCE(substring(u.url FROM '^[^/]*//[^/?#]+'), u.url),
    jsonb_build_object(
        'request_id', COALESCE(q.client_request_id, q.request_id), 'status', %(status)s::text,
        'result_url', '/platform/results/' || COALESCE(q.client_request_id, q.request_id),
        'workflow_id', q.workflow_id,
        'occurred_at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
FROM dag_api_requests AS q
CROSS JOIN LATERAL (
    SELECT CASE WHEN q.subscriber IS NULL THEN q.callback_url ELSE q.subscriber->>(
        CASE %(status)s::text WHEN 'completed' THEN 'success' ELSE 'failed' END
    ) END AS url
) AS u
WHERE q.namespace = %(namespace)s AND q.asset_id = %(asset_id)s AND q.revision = %(revision)s
    AND u.url IS NOT NULL AND q.job_id IS NOT NULL
ON CONFLICT DO NOTHING

-- name: claim_callbacks
-- Namespaces take turns, and within each its hosts; none gets more than it may have under way: a host that hangs holds
-- up nobody else, nor do a thousand names of one. What is chosen is looked at again under its lock, for another
-- orchestrator may have chosen it too.
-- row: HostLoad
WITH RECURSIVE namespaces (namespace) AS (
    (SELECT namespace FROM dag_callbacks WHERE status = 'pending' ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (
        SELECT c.namespace FROM dag_callbacks AS c
        WHERE c.status = 'pending' AND c.namespace > n.namespace ORDER BY c.namespace LIMIT 1
    )
    FROM namespaces AS n
    WHERE n.namespace IS NOT NULL
), busy AS MATERIALIZED (
    SELECT r->>{namespace} AS namespace, r->>{host} AS host, (r->>{tries})::int AS tries
    FROM jsonb_array_elements(%(under_way)s::jsonb) AS r
), due AS MATERIALIZED (
    SELECT d.*
    FROM namespaces AS n
    CROSS JOIN LATERAL (
        SELECT c.callback_id, c.namespace, c.host, c.next_attempt_at
        FROM dag_callbacks AS c
        WHERE c.status = 'pending' AND c.namespace = n.namespace AND c.next_attempt_at <= clock_timestamp()
            AND NOT EXISTS (
                SELECT FROM busy AS b WHERE b.namespace = c.namespace AND b.host = c.host AND b.tries >= %(per_host)s)
        ORDER BY c.next_attempt_at, c.callback_id
        LIMIT 1000
    ) AS d
    WHERE COALESCE((%(namespaces_under_way)s::jsonb->>n.namespace)::int, 0) < %(per_namespace)s
), turns AS MATERIALIZED (
    SELECT
        callback_id, namespace, host,
        row_number() OVER (PARTITION BY namespace, host ORDER BY next_attempt_at, callback_id) AS turn
    FROM due
), places AS MATERIALIZED (
    SELECT
        t.callback_id, row_number() OVER (PARTITION BY t.namespace ORDER BY t.turn, t.callback_id)
            + COALESCE((%(namespaces_under_way)s::jsonb->>t.namespace)::int, 0) AS place
    FROM turns AS t
    LEFT JOIN busy AS b ON b.namespace = t.namespace AND b.host = t.host
    WHERE t.turn <= %(per_host)s - COALESCE(b.tries, 0)
), chosen AS MATERIALIZED (
    SELECT c.callback_id
    FROM places AS p
    JOIN dag_callbacks AS c ON c.callback_id = p.callback_id
    WHERE p.place <= %(per_namespace)s AND c.status = 'pending' AND c.next_attempt_at <= clock_timestamp()
    ORDER BY p.place, c.callback_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE dag_callbacks AS c
SET lease_epoch = c.lease_epoch + 1, next_attempt_at = clock_timestamp() + %(lease_seconds)s * interval '1 second'
FROM chosen
WHERE c.callback_id = chosen.callback_id
RETURNING
    c.callback_id, c.lease_epoch, c.namespace, c.job_id, c.request_id, c.form, c.url, c.endpoint_url, c.host,
    c.attempts, c.body, clock_timestamp()

-- name: settle_tries
-- row: CallbackTry
UPDATE dag_callbacks AS c
SET status = s.status,
    attempts = c.attempts + 1,
    next_attempt_at = clock_timestamp() + COALESCE((r->>{delay_seconds})::float8, 0) * interval '1 second',
    last_attempt_at = clock_timestamp(),
    settled_at = CASE WHEN s.status <> 'pending' THEN clock_timestamp() END,
    last_status = (r->>{last_status})::int,
    last_error = r->>{last_error}
FROM jsonb_array_elements(%(tries)s::jsonb) AS r, LATERAL (SELECT (r->>{status})::callback_status AS status) AS s
WHERE c.callback_id = r->>{callback_id} AND c.lease_epoch = (r->>{lease_epoch})::bigint AND c.status = 'pending'
    AND jsonb_typeof(r) = 'array'
RETURNING c.callback_id

-- name: record_death
-- The job has ended, so nobody else mints its numbers; the caller holds the lock that orders what comes after the end.
INSERT INTO dag_job_events (
    job_id, seq, created_at, namespace, event_type, event_status, source_app, error_message, event_data
)
SELECT
    %(job_id)s::text,
    COALESCE((SELECT e.seq FROM dag_job_events AS e WHERE e.job_id = %(job_id)s::text ORDER BY e.seq DESC LIMIT 1), 0) + 1,
    clock_timestamp(), %(namespace)s, 'callback_dead', 'failure', 'orchestrator', %(error)s,
    jsonb_build_object('callback_id', %(callback_id)s::text, 'attempts', %(attempts)s::int)

-- name: release_claims
-- A process that ends releases the callbacks that it has not finished.
-- row: CallbackClaim
UPDATE dag_callbacks AS c
SET next_attempt_at = clock_timestamp()
FROM jsonb_array_elements(%(claims)s::jsonb) AS r
WHERE c.callback_id = r->>{callback_id} AND c.lease_epoch = (r->>{lease_epoch})::bigint AND c.status = 'pending'
    AND jsonb_typeof(r) = 'array'

-- name: lay_aside
UPDATE dag_callbacks
SET status = 'disabled', settled_at = clock_timestamp(), lease_epoch = lease_epoch + 1
WHERE namespace = %(namespace)s AND endpoint_url = %(url)s AND status = 'pending'

-- name: take_up_again
UPDATE dag_callbacks
SET status = 'pending', settled_at = NULL, attempts = 0, next_attempt_at = clock_timestamp(),
    lease_epoch = lease_epoch + 1, redelivered_by = %(by)s, redelivered_at = clock_timestamp()
WHERE namespace = %(namespace)s AND endpoint_url = %(url)s AND status = 'disabled'

-- name: redeliver
-- The schedule begins anew; the id stays, so that a receiver that has it already knows. The epoch voids a try under way.
UPDATE dag_callbacks AS c
SET status = 'pending', settled_at = NULL, attempts = 0, next_attempt_at = clock_timestamp(),
    lease_epoch = c.lease_epoch + 1, redelivered_by = %(by)s, redelivered_at = clock_timestamp()
WHERE c.namespace = %(namespace)s AND c.callback_id = %(callback_id)s

-- name: find
SELECT
    c.callback_id, c.job_id, NULLIF(c.request_id, '') AS request_id, c.status, c.attempts, c.endpoint_url,
    c.created_at, CASE WHEN c.status = 'pending' THEN c.next_attempt_at END AS next_attempt_at, c.last_attempt_at,
    c.settled_at, c.last_status, c.last_error, c.redelivered_by, c.redelivered_at, c.body
FROM dag_callbacks AS c
WHERE c.namespace = %(namespace)s AND c.callback_id = %(callback_id)s

-- name: list
-- Newest first.
SELECT
    c.callback_id, c.job_id, NULLIF(c.request_id, '') AS request_id, c.status, c.attempts, c.endpoint_url,
    c.created_at, CASE WHEN c.status = 'pending' THEN c.next_attempt_at END AS next_attempt_at, c.last_attempt_at,
    c.settled_at, c.last_status, c.last_error, c.redelivered_by, c.redelivered_at, c.body
FROM dag_callbacks AS c
WHERE c.namespace = %(namespace)s
    AND (%(before)s::text IS NULL OR c.callback_id < %(before)s)
    AND (%(status)s::callback_status IS NULL OR c.status = %(status)s::callback_status)
    AND (%(job_id)s::text IS NULL OR c.job_id = %(job_id)s)
    AND (%(endpoint_url)s::text IS NULL OR c.endpoint_url = %(endpoint_url)s)
ORDER BY c.callback_id DESC
LIMIT %(limit)s
