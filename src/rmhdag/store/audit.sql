-- name: add_audit
INSERT INTO dag_audit (namespace, actor, action, subject, before, after, reason)
VALUES (%(namespace)s, %(actor)s, %(action)s, %(subject)s, %(before)s::jsonb, %(after)s::jsonb, %(reason)s)

-- name: list_audit
SELECT seq, namespace, actor, action, subject, before, after, reason, at
FROM dag_audit
WHERE namespace = %(namespace)s
    AND (%(action)s::text IS NULL OR action = %(action)s OR starts_with(action, %(action)s || '.'))
    AND (%(subject)s::text IS NULL OR subject = %(subject)s)
    AND seq < %(below)s
ORDER BY seq DESC
LIMIT %(limit)s

-- name: list_audit_of_all
SELECT seq, namespace, actor, action, subject, before, after, reason, at
FROM dag_audit
WHERE seq < %(below)s
    AND (%(action)s::text IS NULL OR action = %(action)s OR starts_with(action, %(action)s || '.'))
    AND (%(subject)s::text IS NULL OR subject = %(subject)s)
ORDER BY seq DESC
LIMIT %(limit)s
