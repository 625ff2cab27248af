-- name: children
-- One range of the index by fan-out. Times are milliseconds already here: ten thousand dates would cost more to read
-- than the rows.
SELECT
    fan_out_index, status, attempt,
    (EXTRACT(EPOCH FROM started_at - %(origin_at)s::timestamptz) * 1000)::bigint AS started_ms,
    (EXTRACT(EPOCH FROM completed_at - started_at) * 1000)::bigint AS duration_ms,
    CASE WHEN %(with_keys)s THEN fan_out_item_key END AS item_key,
    CASE WHEN %(with_places)s THEN COALESCE(
        input_params->'bbox', input_params#>'{item,bbox}', input_params#>'{tile,bbox}',
        CASE WHEN input_params ? 'scheme' THEN jsonb_build_array(
            COALESCE(input_params->'first', input_params#>'{batch,first}', input_params#>'{tiles,first}'),
            COALESCE(input_params->'count', input_params#>'{batch,count}', input_params#>'{tiles,count}')) END
    ) END AS place
FROM dag_node_states
WHERE job_id = %(job_id)s AND parent_node_id = %(node_id)s
    AND fan_out_index >= %(first)s AND fan_out_index < %(first)s + %(limit)s
ORDER BY fan_out_index

-- name: total
SELECT CASE WHEN output ? 'dynamic_nodes' THEN (output->>'total')::int END
FROM dag_node_states
WHERE job_id = %(job_id)s AND node_id = %(node_id)s
