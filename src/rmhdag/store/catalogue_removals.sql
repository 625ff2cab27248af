-- name: find_entries
-- Whether the namespace has this item, or anything of this collection, and whose it is.
SELECT
    count(*) FILTER (WHERE item_id <> '' AND NOT removed AND asset_id IS NULL),
    count(*) FILTER (WHERE item_id <> '' AND NOT removed AND asset_id IS NOT NULL),
    min(asset_id) FILTER (WHERE NOT removed),
    count(*)
FROM dag_catalogue_entries
WHERE namespace = %(namespace)s AND collection_id = %(collection_id)s
    AND (%(item_id)s::text IS NULL OR item_id = %(item_id)s)

-- name: remove_entries
-- A bounded number, locked in the order of their keys, as publishing does. Items of assets are left to these: the
-- catalogue shows what the current revision has.
WITH chosen AS MATERIALIZED (
    SELECT namespace, collection_id, item_id
    FROM dag_catalogue_entries
    WHERE namespace = %(namespace)s AND collection_id = %(collection_id)s AND item_id > %(after)s
        AND (%(item_id)s::text IS NULL OR item_id = %(item_id)s) AND NOT removed AND asset_id IS NULL
    ORDER BY item_id COLLATE "C"
    LIMIT %(limit)s
    FOR NO KEY UPDATE
)
UPDATE dag_catalogue_entries AS e
SET removed = true, body = '{}', version = e.version + 1, status = 'pending', attempts = 0,
    lease_epoch = e.lease_epoch + 1, next_attempt_at = clock_timestamp(), changed_at = clock_timestamp(), last_error = NULL
FROM chosen
WHERE e.namespace = chosen.namespace AND e.collection_id = chosen.collection_id AND e.item_id = chosen.item_id
RETURNING e.item_id
