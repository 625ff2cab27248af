-- name: platforms
-- A namespace without a row of its own uses that of `default`.
SELECT DISTINCT ON (platform_id)
    namespace, platform_id, identity_refs, optional_refs, version_ref, review, active, created_by, updated_by,
    created_at, updated_at
FROM dag_platforms
WHERE namespace IN (%(namespace)s, 'default')
ORDER BY platform_id, namespace <> %(namespace)s

-- name: lock_platforms
-- Changes of platforms happen one after the other: the first row of a namespace has nothing yet that could be locked.
SELECT pg_advisory_xact_lock(hashtextextended('rmhdag platforms ' || current_schema(), 0))

-- name: put_platform
INSERT INTO dag_platforms (
    namespace, platform_id, identity_refs, optional_refs, version_ref, review, active, created_by, updated_by
)
VALUES (
    %(namespace)s, %(platform_id)s, %(identity_refs)s::jsonb, %(optional_refs)s::jsonb, %(version_ref)s,
    %(review)s::platform_review, %(active)s, %(created_by)s, %(updated_by)s
)
ON CONFLICT (namespace, platform_id) DO UPDATE
SET identity_refs = excluded.identity_refs, optional_refs = excluded.optional_refs,
    version_ref = excluded.version_ref, review = excluded.review, active = excluded.active,
    updated_by = excluded.updated_by, updated_at = clock_timestamp()

-- name: has_assets
-- Of the platform as this namespace defines it: `default` defines it also for namespaces without a row of their own.
SELECT EXISTS (
    SELECT FROM dag_geospatial_assets AS a
    WHERE a.platform_id = %(platform_id)s
        AND (
            a.namespace = %(namespace)s
            OR (%(namespace)s = 'default' AND NOT EXISTS (
                SELECT FROM dag_platforms AS p
                WHERE p.namespace = a.namespace AND p.platform_id = a.platform_id
            ))
        )
)
