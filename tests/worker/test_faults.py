"""Handlers that crash, hang, grow and fill the disk: the worker goes on, and says what happened."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import require
from tests.worker.conftest import Desk, Gate, StartWorker, WorkerProcess


def process_is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("test.exit", "ended with exit code 137"),
        ("test.segfault", "was killed by SIGSEGV"),
    ],
)
def test_a_child_that_dies_is_reported_at_once_and_replaced(
    shared_worker: WorkerProcess, handler: str, said: str
) -> None:
    """F2, F38: the exit is told, no lease has to run out, and the tasks around it are done."""
    desk = shared_worker.desk
    around = [desk.add("echo", {"n": n}) for n in range(5)]
    task_id = desk.add(handler)
    around += [desk.add("echo", {"n": n}) for n in range(5)]
    result = desk.result(task_id)
    assert (result.status, result.error_kind, result.lease_epoch) == ("failed", "worker_died", 1)
    assert said in str(result.error_message)
    assert "peak memory" in str(result.error_message)
    assert {desk.result(one).status for one in around} == {"completed"}
    if handler == "test.segfault":
        assert "Segmentation fault" in desk.log(task_id)


@pytest.mark.parametrize(
    ("then", "said"),
    [("crash", "was killed by SIGSEGV"), ("stay", "the process closed its connection to the worker")],
)
def test_the_cause_is_the_exit_status_if_the_connection_ends_first(shared_desk: Desk, then: str, said: str) -> None:
    result = shared_desk.result(shared_desk.add("test.hang_up", {"then": then}))
    assert (result.status, result.error_kind) == ("failed", "worker_died")
    assert said in str(result.error_message)


def test_a_child_that_is_killed_is_reported_with_the_signal(shared_worker: WorkerProcess, gate: Gate) -> None:
    desk = shared_worker.desk
    task_id = desk.add("test.gate", {"gate": gate.path})
    desk.started(task_id)
    for pid in shared_worker.children():
        os.kill(pid, signal.SIGKILL)
    result = desk.result(task_id)
    assert result.error_kind == "worker_died"
    assert "SIGKILL" in str(result.error_message)
    assert desk.result(desk.add("echo")).status == "completed"


def test_what_a_handler_started_goes_with_it(shared_worker: WorkerProcess, tmp_path: Path) -> None:
    desk = shared_worker.desk
    pid_file = tmp_path / "pid"
    desk.result(desk.add("test.subprocess", {"pid_file": str(pid_file)}))
    desk.wait(lambda: process_is_gone(int(pid_file.read_text())))


def test_only_the_one_to_blame_fails_when_a_shared_child_dies(shared_worker: WorkerProcess, gate: Gate) -> None:
    """Those that shared the child run again alone, under the same lease and attempt."""
    desk = shared_worker.desk
    innocent = [desk.add("sleep", {"seconds": 0.4}) for _ in range(5)]
    guilty = desk.add("test.light_exit", {"gate": gate.path})
    desk.started(guilty)
    gate.open()
    assert desk.result(guilty).error_kind == "worker_died"
    assert {desk.result(one).status for one in innocent} == {"completed"}
    assert {desk.result(one).lease_epoch for one in innocent} == {1}


@pytest.mark.parametrize("pause", [0.0, 0.005])
def test_a_task_that_grows_too_large_ends_as_out_of_memory(desk: Desk, start_worker: StartWorker, pause: float) -> None:
    """F3: whether it grows faster than the parent looks, or slower."""
    start_worker(memory_limit_mb=150)
    beside = desk.add("sleep", {"seconds": 0.3})
    result = desk.result(desk.add("test.grow", {"pause": pause}))
    assert result.status == "failed"
    assert "out of memory" in str(result.error_message)
    assert desk.result(beside).status == "completed"


def test_a_handler_that_holds_the_interpreter_stops_neither_heartbeat_nor_others(
    desk: Desk, start_worker: StartWorker
) -> None:
    """F36: one call into C of some seconds. Tasks that were sent to the same child are done by the other one."""
    worker = start_worker()
    worker_id = worker.find_worker_id()
    held = desk.add("test.hold_interpreter", {"size": 25_000_000})
    desk.started(held)
    others = [desk.add("echo", {"n": n}) for n in range(50)]
    beats = set()

    def three_beats_seen() -> bool:
        row = desk.conn.execute("SELECT heartbeat_at FROM dag_workers WHERE worker_id = %s", [worker_id]).fetchone()
        assert row is not None
        beats.add(row[0])
        return len(beats) > 3

    assert {desk.result(one).status for one in others} == {"completed"}
    desk.wait(three_beats_seen)
    assert desk.find_result(held) is None


@pytest.mark.parametrize("handler", ["test.spin", "test.ignore", "test.hold_interpreter"])
def test_a_task_that_overstays_is_stopped_and_its_slot_comes_back(
    desk: Desk, start_worker: StartWorker, handler: str
) -> None:
    """F37: told, interrupted, killed; well within ten seconds of its time-out."""
    start_worker(concurrency=1)
    task_id = desk.add(handler, {"size": 10**9}, timeout_seconds=1)
    result = desk.result(task_id)
    assert (result.status, result.error_kind) == ("failed", "timeout")
    assert "longer than its 1 s" in str(result.error_message)
    assert result.execution_duration_ms is not None
    assert 1000 <= result.execution_duration_ms < 11_000
    assert desk.result(desk.add("echo")).status == "completed"


def test_a_task_that_listens_ends_by_itself(desk: Desk, start_worker: StartWorker) -> None:
    worker = start_worker(grace_seconds=20)
    before = worker.children()
    result = desk.result(desk.add("test.spin_until_told", timeout_seconds=1))
    assert (result.status, result.error_kind) == ("failed", "timeout")
    assert worker.children() == before, "it was neither interrupted nor killed"


@pytest.mark.parametrize("handler", ["test.gate", "test.ignore", "sleep"])
def test_a_cancelled_task_is_told_and_reported_as_withdrawn(
    shared_worker: WorkerProcess, gate: Gate, handler: str
) -> None:
    desk = shared_worker.desk
    params = {"seconds": 1000} if handler == "sleep" else {"gate": gate.path}
    task_id = desk.add(handler, params)
    desk.started(task_id)
    desk.conn.execute("UPDATE dag_queue_messages SET cancel_requested = true WHERE task_id = %s", [task_id])
    assert desk.result(task_id).status == "cancelled"
    assert [kind for kind, _ in desk.inbox(task_id)] == ["task_started", "task_withdrawn"]
    assert desk.result(desk.add("echo")).status == "completed"


def test_a_cancelled_task_that_has_not_begun_never_does(desk: Desk, start_worker: StartWorker, gate: Gate) -> None:
    """It waits in the child behind another one when it is told."""
    start_worker(concurrency=1, patience_seconds=60, prefetch_seconds=1000)
    desk.result(desk.add("echo"))
    first = desk.add("test.gate", {"gate": gate.path})
    second = desk.add("echo")
    desk.started(first)
    desk.wait(lambda: (row := desk.queued(second)) and row["worker_id"])
    desk.conn.execute("UPDATE dag_queue_messages SET cancel_requested = true WHERE task_id = %s", [second])
    assert desk.result(second).status == "cancelled"
    gate.open()
    assert desk.result(first).status == "completed"


def test_a_full_disk_is_named_and_leaves_no_partial_file(shared_worker: WorkerProcess, tmp_path: Path) -> None:
    """F33, by a limit on the size of files."""
    desk = shared_worker.desk
    path = tmp_path / "artifact"
    result = desk.result(desk.add("test.fill_disk", {"path": str(path)}))
    assert (result.status, result.error_kind) == ("failed", "handler_error")
    assert "disk full" in str(result.error_message)
    assert list(tmp_path.glob("*artifact*")) == []


def test_a_full_file_system_is_named(shared_worker: WorkerProcess, tmp_path: Path) -> None:
    """F33, for real: a file system of four megabytes."""
    desk = shared_worker.desk
    mounted = tmp_path / "small"
    mounted.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mounted)], capture_output=True)
    require(mount.returncode == 0, "a file system cannot be mounted here")
    try:
        result = desk.result(desk.add("test.fill_small_disk", {"path": str(mounted / "artifact")}))
        assert "disk full" in str(result.error_message)
        assert list(mounted.iterdir()) == []
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_scratch_of_a_dead_child_is_removed(shared_worker: WorkerProcess) -> None:
    desk = shared_worker.desk
    desk.result(desk.add("test.scratch", {"die": True}))
    desk.wait(lambda: not list(shared_worker.scratch.glob("worker-*/t*")))
