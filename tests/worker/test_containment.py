"""An error that nobody expected, at every step of a worker's loops: others go on, nothing is lost, the task ends."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.store import payloads
from tests.worker.conftest import Desk, StartWorker, WorkerProcess

CALLS = [
    "connect",
    "register",
    "wait",
    "has_rung",
    "claim",
    "suspect_waits",
    "read_payload",
    "mark_starts",
    "save_progress",
    "save_checkpoints",
    "keep_logs",
    "write_payload",
    "report",
    "held_tasks",
    "release",
    "beat",
]


def add_one_of_each(desk: Desk) -> list[str]:
    """They lead through every step: a stored value, a log, progress, a start, a checkpoint, a delay, a large output."""
    reference = payloads.write_json(desk.conn, "default", "job", b'["a large value"]').as_json()
    return [
        desk.add("echo", {"value": reference}),
        desk.add("test.write_log", {"lines": 3}),
        desk.add("test.slow_progress"),
        desk.add("test.phases", {"upto": 2}),
        desk.add("test.later", {"seconds": 0}),
        desk.add("test.output", {"kind": "large"}),
    ]


def check_that_all_end(desk: Desk, tasks: list[str]) -> None:
    """Each with one result, and all rows are gone: what the worker holds and what the rows say agree."""
    for task_id in tasks:
        assert desk.result(task_id).status == "completed", (task_id, desk.result(task_id))
    desk.wait(lambda: desk.conn.execute("SELECT count(*) FROM dag_queue_messages").fetchone() == (0,))
    accepted = desk.conn.execute(
        "SELECT task_id FROM dag_task_results WHERE status IN ('completed', 'failed', 'cancelled') ORDER BY task_id"
    ).fetchall()
    assert [row[0] for row in accepted] == sorted(tasks)


def check_health(desk: Desk, worker: WorkerProcess, restarts: int) -> None:
    worker_id = worker.wait_until_ready()

    def settled() -> dict[str, Any] | None:
        stats = desk.stats(worker_id)
        held = [stats.get(name) for name in ("tasks_held", "tasks_unread", "tasks_unreported")]
        return stats if held == [0, 0, 0] and sum(stats["threads"].values()) == restarts else None

    desk.wait(settled)


@pytest.mark.parametrize("method", CALLS)
def test_a_call_to_the_platform_fails(desk: Desk, start_worker: StartWorker, method: str) -> None:
    worker = start_worker(fault={"method": method})
    check_that_all_end(desk, add_one_of_each(desk))
    # A value that cannot be read is that task's affair, and restarts nothing.
    check_health(desk, worker, restarts=0 if method == "read_payload" else 1)


@pytest.mark.parametrize("method", ["register", "claim", "mark_starts", "save_checkpoints", "report", "release"])
def test_the_answer_of_a_call_that_was_done_is_lost(desk: Desk, start_worker: StartWorker, method: str) -> None:
    worker = start_worker(fault={"method": method, "after": True})
    check_that_all_end(desk, add_one_of_each(desk))
    check_health(desk, worker, restarts=1)


@pytest.mark.parametrize("transport", ["http"], indirect=True)
@pytest.mark.parametrize("method", ["claim", "read_payload", "report", "beat"])
def test_a_call_over_http_fails(desk: Desk, start_worker: StartWorker, method: str) -> None:
    worker = start_worker(fault={"method": method})
    check_that_all_end(desk, add_one_of_each(desk))
    check_health(desk, worker, restarts=0 if method == "read_payload" else 1)


@pytest.mark.parametrize("method", ["claim", "held_tasks", "beat", "release"])
def test_a_call_that_fails_again_and_again_ends_the_life_and_not_the_worker(
    desk: Desk, start_worker: StartWorker, method: str
) -> None:
    """What it holds goes back or is told as lost; it registers anew, and what is queued comes to its end."""
    worker = start_worker(fault={"method": method, "times": 4, "most_restarts": 4})
    first_id = worker.wait_until_ready()
    tasks = [desk.add("echo"), desk.add("echo"), desk.add("test.later", {"seconds": 0})]
    desk.wait(lambda: worker.find_worker_id() not in (None, first_id))
    for task_id in tasks:
        row = desk.queued(task_id)
        if row is not None and str(row["worker_id"]).startswith("lost:"):
            desk.requeue(task_id, lease_losses=0)
    check_that_all_end(desk, tasks)
    assert desk.stats(worker.wait_until_ready()).get("lives", 2) == 2
    assert worker.process.poll() is None
