"""Checkpoints are saved before the handler goes on, verified, and resumed from."""

import json
from pathlib import Path

import pytest

from rmhdag.store import workers
from tests.worker.conftest import Desk, Gate, StartWorker, WorkerProcess

OVER_BOTH_TRANSPORTS = True


@pytest.mark.parametrize("size", [0, 50_000])
def test_a_plain_function_resumes_from_what_it_saved(shared_worker: WorkerProcess, tmp_path: Path, size: int) -> None:
    """The child dies after saving; the next lease of the task goes on from there, the owner knows."""
    desk = shared_worker.desk
    artifact = tmp_path / "artifact"
    task_id = desk.add("test.checkpoint", {"artifact": str(artifact), "size": size})
    assert desk.result(task_id).error_kind == "worker_died"
    # Over HTTP the news that it started may come after this: they are calls of their own.
    (told,) = [told for kind, told in desk.inbox(task_id) if kind == "task_checkpointed"]
    assert (told["phase"], "data" in told) == ("half", size == 0)
    saved = told["data"] if "data" in told else workers.read_checkpoint(desk.conn, told["checkpoint_id"])
    assert saved["artifact"]["path"] == str(artifact)
    again = {"checkpoint_phase": "half", "checkpoint_data": json.dumps(saved), "attempt": 2}
    resumed = desk.result(desk.add("test.checkpoint", {"artifact": str(artifact)}, **again)).output
    assert resumed == {"resumed_from": "half", "data": saved}
    artifact.write_text("somebody else was here")
    begun_anew = desk.add("test.checkpoint", {"artifact": str(artifact)}, **again)
    assert desk.result(begun_anew).error_kind == "worker_died"
    assert "starting from the beginning, not from checkpoint 'half'" in desk.log(begun_anew)


def test_the_row_of_a_lost_task_holds_its_checkpoint(
    desk: Desk, start_worker: StartWorker, tmp_path: Path, gate: Gate
) -> None:
    """A lost task goes back as it is: nobody copies the node's checkpoint into it."""
    worker = start_worker()
    task_id = desk.add("test.checkpoint", {"artifact": str(tmp_path / "artifact"), "gate": gate.path})
    desk.started(task_id)
    worker_id = worker.wait_until_ready()
    worker.process.kill()
    worker.process.wait()
    desk.declare_dead(worker_id)
    desk.requeue(task_id, lease_losses=1)
    start_worker()
    assert desk.result(task_id).output["resumed_from"] == "half"


def test_a_failed_phase_leaves_the_checkpoint_before_it(shared_worker: WorkerProcess) -> None:
    desk = shared_worker.desk
    task_id = desk.add("multi_phase", {"phases": 3, "fail_in_phase": 3})
    assert desk.result(task_id).error_message == "RuntimeError: phase 3 failed on purpose"
    saved = [told for kind, told in desk.inbox(task_id) if kind == "task_checkpointed"]
    assert [told["phase"] for told in saved] == ["phase-1", "phase-2"]
    history = desk.conn.execute(
        "SELECT phase FROM dag_checkpoints WHERE task_id = %s ORDER BY checkpoint_id", [task_id]
    ).fetchall()
    assert history == [("phase-1",), ("phase-2",)]
