-- name: registered_handlers
-- What all namespaces have comes first; then the namespace's own, of which older versions kept some in the same table.
SELECT DISTINCT ON (handler) handler, aliases, queue, params_schema, output_schema, place = 0 AS is_shared
FROM (
    SELECT
        handler, aliases, queue, params_schema, output_schema,
        CASE WHEN serves_namespace IS NULL THEN 0 ELSE 2 END AS place
    FROM dag_handlers
    WHERE serves_namespace IS NULL OR serves_namespace = %(namespace)s::text
    UNION ALL
    SELECT handler, aliases, queue, params_schema, output_schema, 1 FROM dag_namespace_handlers
    WHERE namespace = %(namespace)s::text
) AS h
ORDER BY handler, place

-- name: served_queues
SELECT DISTINCT q.queue
FROM dag_workers AS w, LATERAL jsonb_array_elements_text(w.queues) AS q (queue)
WHERE w.heartbeat_at > clock_timestamp() - %(alive_seconds)s * interval '1 second' AND NOT w.draining
    AND COALESCE(w.serves_namespace, %(namespace)s) = %(namespace)s
