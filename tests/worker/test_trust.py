"""Children of a parent that is frozen: somebody else may run their tasks, so they write nothing and end."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.handlers import HandlerContext, LeaseLost
from rmhdag.worker.trust import LeaseGuard, TrustPage, now_ns
from tests.handlers.test_running import run
from tests.store.waiting import wait_until
from tests.worker.conftest import Desk, Gate, StartWorker
from tests.worker.test_faults import process_is_gone
from tests.worker.test_health_port import health_url
from tests.worker.test_outage import outage


def test_the_child_of_a_frozen_parent_does_not_write_after_somebody_else_has_finished(
    desk: Desk, start_worker: StartWorker, gate: Gate, tmp_path: Path
) -> None:
    """M4: it went on, and overwrote what the next lease had written."""
    blobs = tmp_path / "blobs"
    frozen = start_worker(storage_root=str(blobs), concurrency=1, abandoned_seconds=1000)
    first_id = frozen.wait_until_ready()
    task_id = desk.add("test.store_after_gate", {"gate": gate.path})
    desk.started(task_id)
    frozen.send(signal.SIGSTOP)
    desk.wait(lambda: desk.silent_seconds(first_id) > 3)
    assert desk.declare_dead(first_id) == 1
    # The child still waits at the gate, and it is the only one there.
    gate.open()
    told = Path(f"{gate.path}.1")
    assert wait_until(lambda: told.exists() and told.read_text()) == "lost"
    assert not (blobs / "silver").exists()
    start_worker(storage_root=str(blobs))
    desk.requeue(task_id, lease_losses=1)
    gate.open()
    result = desk.result(task_id)
    assert (blobs / "silver" / "made" / "latest.txt").read_text() == f"lease {result.lease_epoch}"


def test_what_runs_under_a_frozen_parent_ends_with_all_that_it_has_started(
    desk: Desk, start_worker: StartWorker, tmp_path: Path
) -> None:
    frozen = start_worker(abandoned_seconds=0.5)
    desk.started(desk.add("test.wait_with_subprocess", {"pid_file": str(tmp_path / "pids")}))
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    idle = frozen.children() - set(pids)
    frozen.send(signal.SIGSTOP)
    wait_until(lambda: all(map(process_is_gone, pids)))
    assert idle, "one child had nothing to do"
    assert not any(map(process_is_gone, idle)), "and has no reason to end"


def test_a_write_during_an_outage_waits_for_its_end(
    desk: Desk, start_worker: StartWorker, gate: Gate, tmp_path: Path, server: EmbeddedPostgres
) -> None:
    """The parent lives and the platform does not answer: the lease may be lost, and mostly is not."""
    blobs = tmp_path / "blobs"
    worker = start_worker(storage_root=str(blobs), health_port=0)
    url = health_url(worker)
    task_id = desk.add("test.store_after_gate", {"gate": gate.path})
    desk.started(task_id)
    with outage(server, desk):
        wait_until(lambda: httpx.get(url, trust_env=False).json()["is_trusted"] is False)
        gate.open()
        wait_until(lambda: Path(f"{gate.path}.trying").exists())
        assert not Path(f"{gate.path}.1").exists()
        assert not (blobs / "silver").exists()
    result = desk.result(task_id)
    assert (result.status, result.lease_epoch, result.error_message) == ("completed", 1, None)
    assert (blobs / "silver" / "made" / "latest.txt").read_text() == "lease 1"


@pytest.fixture
def page() -> TrustPage:
    return TrustPage.create()


def test_a_lease_is_lost_only_if_the_parent_is_silent_and_its_word_is_void(page: TrustPage) -> None:
    guard = LeaseGuard(page, silence_seconds=10)
    with pytest.raises(LeaseLost):
        guard.check()
    page.mark_turn()
    guard.check()
    assert not guard.is_trusted()
    page.trust_until(now_ns() + 60 * 10**9)
    assert guard.is_trusted()
    guard.wait_until_trusted(lambda: False)
    page.trust_until(0)
    with pytest.raises(LeaseLost):
        guard.wait_until_trusted(lambda: True)


@pytest.mark.parametrize("use", ["cancelled", "progress"])
def test_a_handler_that_looks_or_tells_is_ended_and_uses_up_no_attempt(page: TrustPage, use: str) -> None:
    def look(ctx: HandlerContext[Any]) -> None:
        while True:
            if use == "progress":
                ctx.progress(1)
            else:
                assert not ctx.cancelled

    outcome = run(look, check_lease=LeaseGuard(page, silence_seconds=0).check)
    assert (outcome.error_kind, outcome.output, outcome.stopped) == (None, None, True)
