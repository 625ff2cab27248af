"""What a worker keeps in memory has a bound, whatever its children do and however long they do it."""

from __future__ import annotations

import selectors
from pathlib import Path

import pytest

from rmhdag.worker.child_process import ChildKind, ChildProcess, Ending
from rmhdag.worker.frames import FrameError, FrameReader
from rmhdag.worker.scratch import Scratch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.staff import Staff
from rmhdag.worker.trust import TrustPage
from tests.worker.conftest import Desk, Gate, StartWorker
from tests.worker.test_containment import add_one_of_each, check_that_all_end


def test_a_frame_that_does_not_end_is_refused() -> None:
    """Something in the child writes to the socket by accident."""
    reader = FrameReader(most_bytes=1000)
    assert reader.feed(b"x" * 600) == []
    with pytest.raises(FrameError, match="more than 1000 bytes"):
        reader.feed(b"x" * 600)
    rest = FrameReader(most_bytes=1000)
    for _ in range(10):
        assert rest.feed(b'["a"]\n["') == [["a"]]
        assert rest.feed(b'b"]\n') == [["b"]]


def test_children_that_die_at_their_start_are_replaced_for_ever(tmp_path: Path) -> None:
    """The pause was a power of two of how often they had died: after 1,030 deaths no number held it any more."""
    settings = WorkerSettings(dsn="host=nowhere", queues=("light",))
    scratch, trust = Scratch(tmp_path), TrustPage.create()
    with selectors.DefaultSelector() as selector:
        staff = Staff(settings, scratch, trust, selector, lambda child: None, lambda child: None)
        child = ChildProcess(ChildKind.ALONE, settings, scratch.folder, trust)
        try:
            for _ in range(2_000):
                staff.note_death(child, Ending(1, 1))
        finally:
            child.kill()
            child.reap(wait=True)
            child.close()
            scratch.close()
            trust.close()


def test_a_worker_tells_how_much_it_holds_of_everything_that_could_grow(
    desk: Desk, start_worker: StartWorker, gate: Gate
) -> None:
    """Chaos compares these sizes with their bounds; when all tasks have ended, nothing of them is kept."""
    worker = start_worker(concurrency=1)
    worker_id = worker.wait_until_ready()
    held = desk.add("test.gate", {"gate": gate.path})
    sizes = desk.wait(lambda: (found := desk.stats(worker_id).get("sizes")) and found["leases"] and found)
    assert sizes["leases"] == sizes["known_leases"] == 1
    gate.open()
    assert desk.result(held).status == "completed"
    check_that_all_end(desk, [held, *add_one_of_each(desk)])
    desk.wait(lambda: set(desk.stats(worker_id)["sizes"].values()) == {0})
    assert desk.stats(worker_id)["sizes"].keys() == sizes.keys()


def test_of_checkpoints_that_wait_only_the_newest_is_kept(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    task_id = desk.add("test.many_checkpoints", {"count": 2_000})
    assert desk.result(task_id).status == "completed"
    phases = desk.conn.execute(
        "SELECT phase FROM dag_checkpoints WHERE task_id = %s ORDER BY checkpoint_id", [task_id]
    ).fetchall()
    assert phases[-1] == ("p1999",)
    assert len(phases) < 2_000
