"""A worker that is told to stop loses nothing: it finishes, saves or gives back, and leaves nothing behind."""

import os
import signal
from pathlib import Path

import pytest

from tests.worker.conftest import Desk, Gate, StartWorker, WorkerProcess


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_at_once_and_cleans_up(
    desk: Desk, worker: WorkerProcess, tmp_path: Path, number: signal.Signals
) -> None:
    desk.result(desk.add("echo"))
    children = worker.children()
    assert worker.end(number, 5) == 0
    assert desk.worker_ids() == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert os.listdir(tmp_path / "scratch") == []


def test_a_running_task_may_finish_and_waiting_ones_go_back(desk: Desk, start_worker: StartWorker, gate: Gate) -> None:
    worker = start_worker(concurrency=1, prefetch_seconds=1000, patience_seconds=60)
    desk.result(desk.add("echo"))
    with desk.conn.transaction():
        running = desk.add("test.gate", {"gate": gate.path})
        waiting = [desk.add("echo") for _ in range(3)]
    desk.started(running)
    desk.wait(lambda: all((row := desk.queued(one)) and row["worker_id"] for one in waiting))
    worker.send(signal.SIGTERM)
    desk.wait(lambda: all((row := desk.queued(one)) and row["worker_id"] is None for one in waiting))
    assert not any(desk.inbox(one) for one in waiting)
    row = desk.conn.execute("SELECT draining FROM dag_workers").fetchone()
    desk.wait(lambda: desk.conn.execute("SELECT 1 FROM dag_workers WHERE draining").fetchone())
    assert row is not None
    gate.open()
    assert worker.process.wait(10) == 0
    assert desk.result(running).status == "completed"


def test_a_checkpointable_task_stops_at_its_next_checkpoint_and_resumes_elsewhere(
    desk: Desk, start_worker: StartWorker
) -> None:
    worker = start_worker()
    task_id = desk.add("test.phases", {"upto": 100_000})
    desk.started(task_id)
    assert worker.end() == 0
    row = desk.queued(task_id)
    assert row is not None
    assert (row["worker_id"], row["attempt"], row["lease_losses"]) == (None, 1, 0)
    reached = row["checkpoint_data"]["number"]
    kinds = [kind for kind, _ in desk.inbox(task_id)]
    assert kinds[-2:] == ["task_checkpointed", "task_snoozed"]
    desk.conn.execute(
        "UPDATE dag_queue_messages SET params = jsonb_build_object('upto', %s::int) WHERE task_id = %s",
        [reached + 2, task_id],
    )
    start_worker()
    assert desk.result(task_id).output == {"number": reached + 2, "resumed": True}


@pytest.mark.parametrize("handler", ["test.gate", "test.ignore"])
def test_a_task_that_does_not_end_in_time_is_given_back(
    desk: Desk, start_worker: StartWorker, gate: Gate, handler: str
) -> None:
    worker = start_worker(stop_seconds=3.0)
    task_id = desk.add(handler, {"gate": gate.path})
    desk.started(task_id)
    assert worker.end(timeout_seconds=10) == 0
    row = desk.queued(task_id)
    assert row is not None
    assert (row["worker_id"], row["started_at"], row["attempt"]) == (None, None, 1)
    # Its owner must know that it no longer runs: its time in the queue is no run time.
    assert [kind for kind, _ in desk.inbox(task_id)] == ["task_started", "task_snoozed"]


def test_a_second_signal_does_not_wait(desk: Desk, worker: WorkerProcess) -> None:
    """Later than a second after the first: before that it is taken for the same one."""
    task_id = desk.add("test.ignore")
    desk.started(task_id)
    for _ in range(2):
        worker.send(signal.SIGINT)
    draining = "SELECT 1 FROM dag_workers WHERE draining AND heartbeat_at > started_at + %s * interval '1 second'"
    desk.wait(lambda: desk.conn.execute(draining, [0]).fetchone())
    stopping_for = desk.conn.execute("SELECT extract(epoch FROM heartbeat_at - started_at) FROM dag_workers").fetchone()
    assert stopping_for is not None
    desk.wait(lambda: desk.conn.execute(draining, [float(stopping_for[0]) + 1.2]).fetchone())
    assert worker.process.poll() is None
    assert worker.end(signal.SIGINT, 10) == 0
    row = desk.queued(task_id)
    assert row is not None
    assert row["worker_id"] is None
