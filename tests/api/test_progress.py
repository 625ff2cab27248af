"""How far a job is, over HTTP."""

import re
from typing import Any

import psycopg
import pytest

from rmhdag.models.leases import TaskProgress
from rmhdag.models.scopes import Scope
from rmhdag.orchestrator.duties import rollups
from rmhdag.store import workers
from rmhdag.store.connection import connect, enter_schema
from rmhdag.views import fan_outs, pictures, progress, timeline
from rmhdag.views.fan_outs import ChildCounts
from tests.api.serving import Served
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import Platform


def test_a_fan_out_is_one_unit_that_its_children_share(api: Served, platform: Platform) -> None:
    job_id = platform.submit(fan(), {"items": [1, 2, 3, 4]})
    client = api.client(Scope.READ)
    path = f"/api/v1/jobs/{job_id}/progress"
    waiting = client.get(path).json()
    assert (waiting["job_status"], waiting["overall_percent"], waiting["nodes"]["total"]) == ("pending", 0, 0)
    seat = platform.seat()
    seat.work()
    assert client.get(path).json()["overall_percent"] == 0
    platform.succeed(*platform.claim(2))
    seat.work()
    half = client.get(path).json()
    # Three nodes, split among them: half of its children are a sixth of the job.
    assert half["overall_percent"] == 16.6
    assert half["nodes"] == {
        "total": 7,
        "completed": 2,
        "running": 1,
        "dispatched": 2,
        "pending": 2,
        "failed": 0,
        "skipped": 0,
        "cancelled": 0,
    }
    split = client.get(f"/api/v1/jobs/{job_id}/nodes/split/progress").json()
    assert (split["status"], split["children"]["completed"], split["children"]["total"]) == ("running", 2, 4)
    platform.finish(seat)
    done = client.get(path).json()
    assert (done["job_status"], done["overall_percent"]) == ("completed", 100)
    assert done["nodes"]["completed"] == done["nodes"]["total"] == 7
    assert done["current_tasks"] == []


def test_running_tasks_say_how_far_they_are(api: Served, platform: Platform) -> None:
    job_id = platform.submit(workflow(first=task("last"), last=task()))
    seat = platform.seat()
    seat.work()
    [claimed] = platform.claim()
    told = TaskProgress(claimed.task_id, claimed.lease_epoch, 3, 10, 30.0, "reading")
    workers.save_progress_if_held(platform.conn, platform.worker_id, [told])
    client = api.client(Scope.READ)
    [shown] = client.get(f"/api/v1/jobs/{job_id}/progress").json()["current_tasks"]
    assert shown == {
        "node_id": "first",
        "task_id": claimed.task_id,
        "progress_percent": 30,
        "progress_current": 3,
        "progress_total": 10,
        "progress_message": "reading",
    }
    node = client.get(f"/api/v1/jobs/{job_id}/nodes/first/progress").json()
    assert node["task"] == shown
    assert (node["retry_count"], node["max_retries"], node["checkpoint"]) == (0, 0, None)


def test_the_end_is_estimated_from_earlier_jobs(api: Served, platform: Platform) -> None:
    definition = workflow(first=task("last"), last=task())
    client = api.client(Scope.READ)
    earlier = platform.submit(definition)
    seat = platform.seat()
    seat.work()
    assert client.get(f"/api/v1/jobs/{earlier}/progress").json()["estimated_completion"] is None
    platform.finish(seat)
    platform.conn.execute(
        "UPDATE dag_node_states SET started_at = completed_at - interval '100 seconds' WHERE job_id = %s", [earlier]
    )
    assert rollups.run_once(seat.conn, rollups.BiteSize(), settling_seconds=0) == 1
    job_id = platform.submit(definition)
    seat.work()
    row = platform.conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    shown = client.get(f"/api/v1/jobs/{job_id}/progress").json()["estimated_completion"]
    left = platform.conn.execute("SELECT extract(epoch FROM %s::timestamptz - %s)", [shown, row[0]]).fetchone()
    assert left is not None
    assert 180 < left[0] < 220


def test_children_are_counted_once_for_many_callers(platform: Platform) -> None:
    child_counts = ChildCounts(many=4, pause_factor=1e9, longest_pause_seconds=600)
    job_id = platform.submit(fan(), {"items": [1, 2, 3, 4]})
    seat = platform.seat()
    seat.work()
    first = child_counts(platform.conn, job_id, has_ended=False)
    assert first["split"] == {"dispatched": 4}
    platform.finish(seat)
    assert child_counts(platform.conn, job_id, has_ended=False) is first
    # Whoever saw the job's end must not be shown what was before it.
    assert child_counts(platform.conn, job_id, has_ended=True)["split"] == {"completed": 4}


FILL = """
INSERT INTO dag_node_states (job_id, node_id) SELECT 'j' || n, 'n' FROM generate_series(1, 50000) n;
INSERT INTO dag_node_states (job_id, node_id, parent_node_id, fan_out_index)
    SELECT 'big', 'split__' || n, 'split', n FROM generate_series(0, 4999) n;
INSERT INTO dag_job_events (job_id, seq, event_type, source_app)
    SELECT 'j' || n % 5000, n, 'node_ready', 'test' FROM generate_series(1, 50000) n;
INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,
    claimed_at, lease_epoch)
    SELECT 't' || n, 'j' || n % 5000, 'n', 'q', 'echo', n, 'me', 'w', now(), 1 FROM generate_series(1, 20000) n;
ANALYZE dag_node_states, dag_job_events, dag_queue_messages;
"""


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (fan_outs.SQL["child_counts"], "dag_node_states_children_idx"),
        (pictures.SQL["nodes"], "dag_node_states_pkey"),
        (progress.SQL["node"], "dag_node_states_pkey"),
        (progress.SQL["current_tasks"], "dag_queue_messages_job_idx"),
        (timeline.SQL["timeline"], r"dag_job_events_\d+_pkey"),
        (timeline.SQL["timeline_summary"], r"dag_job_events_\d+_pkey"),
    ],
)
def test_only_rows_of_the_job_are_read(migrated_database: str, query: bytes, index: str) -> None:
    node_id = "split__7" if query == progress.SQL["node"] else None
    given = {"job_id": "big", "node_id": node_id, "after": 0, "event_types": None, "limit": 100, "nodes": ["split"]}
    given |= {"namespace": "default", "alive_seconds": 10, "conditionals": ["if"], "workflows": ["other"]}
    with connect(migrated_database, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        conn.execute(FILL.encode())
        plan = explain(conn, query, given)
    # Days without events are empty tables, which are read as they are.
    assert re.search(rf"(using|on) {index}", plan), plan
    assert "Seq Scan on dag_node_states" not in plan


def explain(conn: psycopg.Connection[Any], query: bytes, given: dict[str, Any]) -> str:
    return "\n".join(line for (line,) in conn.execute(b"EXPLAIN " + query, given))
