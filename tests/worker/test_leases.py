"""What a worker holds, and what it does when that is no longer so."""

import os
import signal
from pathlib import Path

import pytest

from rmhdag.store import tasks
from tests.worker.conftest import QUEUE, Desk, Gate, StartWorker, WorkerProcess
from tests.worker.test_faults import process_is_gone

OVER_BOTH_TRANSPORTS = True


@pytest.mark.parametrize("ends_meanwhile", [True, False])
def test_a_frozen_worker_that_wakes_changes_nothing_and_begins_anew(
    desk: Desk, worker: WorkerProcess, gate: Gate, ends_meanwhile: bool
) -> None:
    """F5: declared dead while it sleeps. What its child has done is refused; what its child still does is ended."""
    first_id = worker.wait_until_ready()
    task_id = desk.add("test.gate", {"gate": gate.path})
    started = desk.started(task_id)
    assert started["worker_id"] == first_id
    children = worker.children()
    worker.send(signal.SIGSTOP)
    if ends_meanwhile:
        gate.open()
    desk.wait(lambda: desk.silent_seconds(first_id) > 1)
    assert desk.declare_dead(first_id) == 1
    worker.send(signal.SIGCONT)
    second_id = desk.wait(lambda: (found := worker.find_worker_id()) != first_id and found)
    if not ends_meanwhile:
        desk.wait(lambda: children - worker.children())
    desk.requeue(task_id, lease_losses=1)
    desk.started(task_id)
    gate.open()
    result = desk.result(task_id)
    assert result.output["epoch"] == result.lease_epoch == started["lease_epoch"] + 2
    rows = desk.conn.execute(
        "SELECT lease_epoch, status, worker_id FROM dag_task_results WHERE task_id = %s ORDER BY 1", [task_id]
    ).fetchall()
    assert rows == [(1, "lost", first_id), (3, "completed", second_id)]


def test_a_running_task_whose_lease_is_gone_is_killed(shared_worker: WorkerProcess, gate: Gate) -> None:
    """As when its owner has timed it out: the row is deleted, nobody waits for it."""
    desk = shared_worker.desk
    task_id = desk.add("test.gate", {"gate": gate.path})
    desk.started(task_id)
    before = shared_worker.children()
    desk.conn.execute("DELETE FROM dag_queue_messages WHERE task_id = %s", [task_id])
    desk.wait(lambda: before - shared_worker.children())
    assert desk.result(desk.add("echo")).status == "completed"
    assert desk.find_result(task_id) is None


def test_a_claim_whose_answer_was_lost_is_given_back(shared_worker: WorkerProcess) -> None:
    """Rows that are ours by the database's account and not by our own."""
    desk = shared_worker.desk
    worker_id = shared_worker.wait_until_ready()
    desk.result(desk.add("echo"))
    task_id = desk.add("echo", queue="elsewhere")
    assert [task.task_id for task in tasks.claim_tasks(desk.conn, worker_id, "elsewhere", 10)] == [task_id]
    desk.wait(lambda: (row := desk.queued(task_id)) and row["worker_id"] is None and row["lease_epoch"] == 1)
    assert desk.inbox(task_id) == []


def test_a_task_that_was_lost_before_starts_only_after_its_start_is_committed(
    desk: Desk, start_worker: StartWorker, gate: Gate
) -> None:
    """Otherwise a task that kills its worker within half a second would never be found out."""
    start_worker(start_mark_seconds=1000)
    task_id = desk.add("test.gate", {"gate": gate.path}, lease_epoch=2)
    gate.open()
    desk.result(task_id)
    assert [kind for kind, _ in desk.inbox(task_id)] == ["task_started", "task_reported"]


def test_a_task_that_kills_its_worker_is_seen_as_started_from_the_second_time_on(
    desk: Desk, start_worker: StartWorker
) -> None:
    """F38 with the parent: only started losses count, so a quick killer would otherwise go on for ever."""
    task_id = ""
    for lives in range(2):
        worker = start_worker(start_mark_seconds=1000)
        worker_id = worker.wait_until_ready()
        if lives == 0:
            task_id = desk.add("test.kill_parent")
        else:
            desk.requeue(task_id, lease_losses=0)
        assert worker.process.wait(30) == -signal.SIGKILL
        row = desk.queued(task_id)
        assert row is not None
        assert row["worker_id"] == worker_id
        assert (row["started_at"] is not None) == (lives == 1)
        desk.declare_dead(worker_id)
    lost = [told["started"] for kind, told in desk.inbox(task_id) if kind == "task_lost"]
    assert lost == [False, True]


def test_children_die_with_their_parent(desk: Desk, worker: WorkerProcess, gate: Gate) -> None:
    """F1: whatever they do at that moment."""
    for handler in ("test.gate", "test.spin"):
        desk.started(desk.add(handler, {"gate": gate.path}))
    children = worker.children()
    assert len(children) == 2
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait()
    desk.wait(lambda: all(map(process_is_gone, children)))


def test_tasks_behind_a_long_one_are_taken_back(desk: Desk, start_worker: StartWorker, gate: Gate) -> None:
    """One slot, one long task: what was prefetched goes back to the queue, unstarted."""
    start_worker(concurrency=1, prefetch_seconds=1000)
    desk.result(desk.add("echo"))
    with desk.conn.transaction():
        long = desk.add("test.gate", {"gate": gate.path})
        others = [desk.add("echo") for _ in range(3)]
    desk.started(long)
    desk.wait(lambda: all((row := desk.queued(one)) and row["worker_id"] is None for one in others))
    claimed = tasks.claim_tasks(desk.conn, "another", QUEUE, 10)
    assert [task.task_id for task in claimed] == others
    assert not any(desk.inbox(one) for one in others)
    gate.open()
    assert desk.result(long).status == "completed"


def test_folders_of_killed_workers_are_swept(desk: Desk, start_worker: StartWorker, tmp_path: Path, gate: Gate) -> None:
    first = start_worker()
    desk.add("test.scratch", {"gate": gate.path})
    file = desk.wait(lambda: next((tmp_path / "scratch").glob("worker-*/t1.1/file"), None))
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert file.exists()
    start_worker()
    assert not file.parent.parent.exists()
    assert os.listdir(tmp_path / "scratch")
