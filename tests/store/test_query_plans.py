"""With rows in the tables, the queries of the hot path walk their index, in its order."""

from typing import Any

import psycopg
import pytest

FILL = """
INSERT INTO dagapp.dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,
    root_job_id, owner_id, status, started_at, completed_at, created_at)
  SELECT 'j' || n, 'w' || n % 20, 1, 'h', 'me', 'me', 'j' || n, CASE WHEN n % 100 = 0 THEN NULL ELSE 'o' || n % 5 END,
    CASE WHEN n % 100 < 90 THEN 'completed' ELSE 'running' END::dagapp.job_status, now(),
    CASE WHEN n % 100 < 90 THEN now() END, now() - n * interval '1 second'
  FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_node_states (job_id, node_id, parent_node_id, fan_out_index, next_attempt_at, deadline_at)
  SELECT 'j' || n % 50, 'p__' || n, 'p', n, CASE WHEN n % 500 = 0 THEN now() + n * interval '1 minute' END,
    CASE WHEN n % 500 = 1 THEN now() + n * interval '1 minute' END
  FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,
    claimed_at, lease_epoch, available_at)
  SELECT 'j' || n % 500 || '-' || n, 'j' || n % 500, 'n', 'q' || n % 2, 'echo', n, 'me',
    CASE WHEN n % 10 = 0 THEN 'w' || n % 200 END, CASE WHEN n % 10 = 0 THEN now() END, 1,
    CASE WHEN n % 100 = 1 THEN now() + n * interval '1 minute' END
  FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_inbox (owner_id, job_id, kind)
  SELECT 'o' || n % 5, 'j' || n, 'command' FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status)
  SELECT 'j' || n % 500 || '-' || n, 1, 'j' || n % 500, 'n', 1, 'completed' FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_outbox (message_id, destination, body, status, settled_at, next_attempt_at)
  SELECT 'm' || n, 'q', '{}', CASE WHEN n % 50 = 0 THEN 'pending' ELSE 'delivered' END::dagapp.outbox_status,
    CASE WHEN n % 50 > 0 THEN now() END, now() + n * interval '1 second'
  FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_callbacks (callback_id, namespace, job_id, url, endpoint_url, host, body, status, settled_at,
    next_attempt_at)
  SELECT 'c' || lpad(n::text, 6, '0'), CASE WHEN n % 10 = 0 THEN 'default' ELSE 'other' END,
    'j' || n, 'u', 'u' || n % 10, 'h' || n % 10, '{}',
    CASE WHEN n % 50 = 0 THEN 'pending' ELSE 'delivered' END::dagapp.callback_status,
    CASE WHEN n % 50 > 0 THEN now() END, now() + n * interval '1 second'
  FROM generate_series(1, 5000) n;
INSERT INTO dagapp.dag_job_events (job_id, seq, event_type, source_app, transaction_id)
  SELECT 'j' || n % 50, n, 'node_ready', 'test', n FROM generate_series(1, 20000) n;
ANALYZE dagapp.dag_jobs, dagapp.dag_node_states, dagapp.dag_queue_messages, dagapp.dag_inbox, dagapp.dag_task_results,
  dagapp.dag_outbox, dagapp.dag_callbacks, dagapp.dag_job_events;
"""

HOT_QUERIES = {
    "dag_queue_messages_claimable_idx": """SELECT task_id FROM dagapp.dag_queue_messages
        WHERE queue = 'q1' AND worker_id IS NULL AND available_at IS NULL AND order_key >= 5
        AND lease_losses < 2
        ORDER BY order_key LIMIT 10 FOR UPDATE SKIP LOCKED""",
    "dag_queue_messages_held_idx": "SELECT task_id FROM dagapp.dag_queue_messages WHERE worker_id = 'w10'",
    "dag_queue_messages_delayed_idx": "SELECT task_id FROM dagapp.dag_queue_messages WHERE available_at <= now()",
    "dag_queue_messages_job_idx": "SELECT task_id FROM dagapp.dag_queue_messages WHERE job_id = 'j7'",
    "dag_queue_messages_suspects_idx": """SELECT task_id FROM dagapp.dag_queue_messages
        WHERE queue = ANY('{q1,q2}') AND lease_losses > 1 AND worker_id IS NULL AND available_at IS NULL""",
    "dag_inbox_pkey": """SELECT * FROM dagapp.dag_inbox WHERE owner_id = 'o1' AND inbox_id > 7
        ORDER BY inbox_id LIMIT 50""",
    "dag_node_states_retry_due_idx": "SELECT job_id FROM dagapp.dag_node_states WHERE next_attempt_at <= now()",
    "dag_node_states_deadline_due_idx": "SELECT job_id FROM dagapp.dag_node_states WHERE deadline_at <= now()",
    "dag_node_states_children_idx": """SELECT node_id FROM dagapp.dag_node_states
        WHERE job_id = 'j7' AND parent_node_id = 'p' AND fan_out_index > 4 ORDER BY fan_out_index LIMIT 10""",
    "dag_jobs_owned_idx": """SELECT job_id FROM dagapp.dag_jobs WHERE owner_id = 'o1' AND completed_at IS NULL
        ORDER BY job_id LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED""",
    "dag_jobs_list_idx": """SELECT job_id FROM dagapp.dag_jobs
        WHERE namespace = 'default' AND (created_at, job_id) < (now(), 'x')
        ORDER BY created_at DESC, job_id DESC LIMIT 50""",
    "dag_jobs_workflow_idx": """SELECT job_id FROM dagapp.dag_jobs WHERE namespace = 'default' AND workflow_id = 'w3'
        ORDER BY created_at DESC, job_id DESC LIMIT 50""",
    "dag_task_results_pkey": "SELECT output FROM dagapp.dag_task_results WHERE task_id >= 'j7-' AND task_id < 'j7.'",
    "dag_outbox_due_idx": """SELECT message_id FROM dagapp.dag_outbox
        WHERE status = 'pending' AND next_attempt_at <= now() ORDER BY next_attempt_at LIMIT 10
        FOR UPDATE SKIP LOCKED""",
    "dag_callbacks_due_idx": """SELECT callback_id FROM dagapp.dag_callbacks
        WHERE status = 'pending' AND next_attempt_at <= now() AND NOT host = ANY('{h1,h2}')
        ORDER BY next_attempt_at, callback_id LIMIT 1000""",
    "dag_callbacks_status_idx": """SELECT callback_id FROM dagapp.dag_callbacks
        WHERE namespace = 'default' AND status = 'pending' AND callback_id < 'c003000'
        ORDER BY callback_id DESC LIMIT 50""",
}
# Jobs without an owner are in the same index. Ordered by job_id alone they would be sorted: IS NULL is no equality.
ORPHANS = """SELECT job_id FROM dagapp.dag_jobs WHERE owner_id IS NULL AND completed_at IS NULL
    ORDER BY owner_id, job_id LIMIT 10"""
STREAM = """SELECT job_id FROM dagapp.dag_job_events WHERE transaction_id > 19900
    AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"""


def explain(conn: psycopg.Connection[Any], query: str) -> str:
    return "\n".join(line for (line,) in conn.execute(f"EXPLAIN {query}".encode()))


@pytest.mark.timeout(60)
def test_hot_queries_walk_their_index_in_order(conn: psycopg.Connection[Any]) -> None:
    conn.execute(FILL.encode())
    conn.execute("SET LOCAL enable_bitmapscan = off")
    for index, query in [*HOT_QUERIES.items(), ("dag_jobs_owned_idx", ORPHANS)]:
        text = explain(conn, query)
        assert f"using {index}" in text, text
        assert "Sort" not in text, text
    conn.execute("SET LOCAL enable_bitmapscan = on")
    assert "transaction_id_idx" in explain(conn, STREAM)
