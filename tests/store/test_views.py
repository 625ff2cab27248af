"""What people read: counts, queues and pages of logs."""

from typing import Any

import psycopg
import pytest

from rmhdag.store.reading import read_all
from rmhdag.views import pictures
from rmhdag.views.fan_outs import count_children
from rmhdag.views.logs import LogPlace, read_page
from rmhdag.views.pictures import NodeRow
from rmhdag.views.processes import list_queues

FILL = """
INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by, root_job_id,
    status, started_at, completed_at, created_at)
  SELECT lpad(to_hex(n), 32, '0'), 'w' || n % 20, 1, 'h', 'me', 'me', 'r',
    CASE WHEN n % 500 = 0 THEN 'failed' WHEN n % 500 = 1 THEN 'running' ELSE 'completed' END::job_status,
    now(), CASE WHEN n % 500 <> 1 THEN now() END, timestamptz '2026-01-01 00:00Z' + n / 2 * interval '1 second'
  FROM generate_series(1, 20000) n;
INSERT INTO dag_node_states (job_id, node_id, status, output, completed_at)
  VALUES ('j', 'split', 'running', '{"dynamic_nodes": ["split__0", "split__9"], "total": 10}', NULL),
         ('j', 'sum', 'completed', '{"total": {"no": "number"}}', now());
INSERT INTO dag_node_states (job_id, node_id, parent_node_id, fan_out_index, status, error_message, completed_at)
  SELECT 'j', 'split__' || n, 'split', n, CASE WHEN n < 3 THEN 'failed' ELSE 'ready' END::node_status,
    CASE WHEN n < 3 THEN 'boom ' || n END, CASE WHEN n < 3 THEN now() END
  FROM generate_series(0, 6) n;
ANALYZE dag_jobs
"""


@pytest.fixture
def filled(conn: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    conn.execute("SET search_path TO dagapp")
    conn.execute(FILL)
    return conn


def test_children_are_counted_and_a_fan_out_says_how_many_there_will_be(filled: psycopg.Connection[Any]) -> None:
    names = {"nodes": ["split", "sum", "never"], "conditionals": [], "workflows": []}
    parameters = {"job_id": "j", "namespace": "default", "alive_seconds": 10, **names}
    nodes = {node.node_id: node.total for node in read_all(filled, NodeRow, pictures.SQL["nodes"], parameters)}
    assert nodes == {"split": 10, "sum": None}
    assert count_children(filled, "j") == {"split": {"failed": 3, "ready": 4}}


def test_queues_of_rows_and_of_workers(filled: psycopg.Connection[Any]) -> None:
    filled.execute(
        """INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,
             claimed_at, lease_epoch, available_at)
           SELECT 't' || n, 'j', 'n', 'a', 'echo', n, 'me', CASE WHEN n = 1 THEN 'w' END,
             CASE WHEN n = 1 THEN now() END, 1, CASE WHEN n = 2 THEN now() END
           FROM generate_series(1, 5) n;
           INSERT INTO dag_workers (worker_id, host, process_id, version, slots, queues, heartbeat_at)
           VALUES ('w', 'h', 1, '0', 4, '["b"]', now()), ('dead', 'h', 2, '0', 4, '["a"]', now() - interval '1 hour')"""
    )
    rows, served = list_queues(filled, "default", alive_seconds=60)
    assert (rows.queue, rows.waiting, rows.delayed, rows.running, rows.workers) == ("a", 3, 1, 1, 0)
    assert rows.oldest_seconds is not None
    assert (served.queue, served.waiting, served.workers, served.slots) == ("b", 0, 1, 4)


def test_logs_of_a_job_come_in_pages_by_time(filled: psycopg.Connection[Any]) -> None:
    filled.execute(
        """INSERT INTO dag_task_logs
             (task_id, lease_epoch, chunk_index, job_id, node_id, line_count, content, created_at)
           SELECT job || '-' || n % 3, 1, n / 3, job, 'n' || n % 3, 1, n::text, clock_timestamp()
           FROM generate_series(0, 8) n, unnest(array['aa', 'ab', 'a']) job ORDER BY n"""
    )
    found: list[str] = []
    after = None
    while page := read_page(filled, "aa", after=after, limit=4):
        found += [chunk.content for chunk in page]
        last = page[-1]
        after = LogPlace(last.created_at, last.task_id, last.lease_epoch, last.chunk_index)
    assert found == list("012345678")
    assert [chunk.content for chunk in read_page(filled, "ab", tasks=["ab-1"])] == ["1", "4", "7"]
