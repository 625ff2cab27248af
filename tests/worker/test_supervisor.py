"""The supervisor of a worker when a step of its own fails, and when a loop hangs."""

from __future__ import annotations

import os
import signal

import pytest

from tests.worker.conftest import Desk, Gate, StartWorker
from tests.worker.test_containment import add_one_of_each, check_health, check_that_all_end
from tests.worker.test_faults import process_is_gone

# Longer than a loop waits for the processor on a busy machine: a worker that is merely slow must not count as stuck.
STUCK_SECONDS = 5.0
PARTS = [("crew.placement", "place"), ("crew.placement", "room"), ("watch", "go_round"), ("strays", "look")]


@pytest.mark.parametrize(("part", "method"), PARTS, ids=lambda value: str(value))
def test_a_step_of_the_supervisor_fails(desk: Desk, start_worker: StartWorker, part: str, method: str) -> None:
    worker = start_worker(fault={"part": part, "method": method, "first": 3, "times": 2})
    check_that_all_end(desk, add_one_of_each(desk))
    check_health(desk, worker, 2)


def test_tasks_that_were_lost_on_their_way_to_the_crew_are_given_back(desk: Desk, start_worker: StartWorker) -> None:
    """Leased to this worker, known to its exchange, and to nobody who would run them."""
    worker = start_worker(fault={"part": "crew", "method": "take"}, concurrency=1)
    task_id = desk.add("echo")
    result = desk.result(task_id)
    assert (result.status, result.lease_epoch) == ("completed", 2)
    assert "task_snoozed" not in [kind for kind, _ in desk.inbox(task_id)], "it never ran"
    check_health(desk, worker, 1)


def test_a_task_whose_lease_is_gone_is_ended_even_if_that_fails_at_first(
    desk: Desk, start_worker: StartWorker, gate: Gate
) -> None:
    worker = start_worker(fault={"part": "crew", "method": "drop"})
    task_id = desk.add("test.gate", {"gate": gate.path})
    desk.started(task_id)
    children = worker.children()
    desk.conn.execute("DELETE FROM dag_queue_messages WHERE task_id = %s", [task_id])
    desk.wait(lambda: children - worker.children())
    check_health(desk, worker, 1)


def test_a_result_that_can_never_be_reported_is_that_task_s_failure(desk: Desk, start_worker: StartWorker) -> None:
    """Three times the same error: it is taken for the data's fault, and the others are reported."""
    start_worker(fault={"method": "write_payload", "times": 1000})
    guilty = desk.add("test.output", {"kind": "large"})
    others = [desk.add("echo") for _ in range(5)]
    assert desk.result(guilty).error_kind == "output_refused"
    assert {desk.result(one).status for one in others} == {"completed"}


@pytest.mark.parametrize("role", ["exchange", "heartbeat"])
def test_a_server_process_that_never_answers_costs_a_connection_and_no_thread(
    desk: Desk, start_worker: StartWorker, role: str
) -> None:
    """It keeps the connection, and its machine answers for it: without a deadline the worker would wait for ever."""
    worker = start_worker()
    first_id = worker.wait_until_ready()
    assert desk.result(desk.add("echo")).status == "completed"
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    (pid,) = desk.conn.execute(query, [f"rmhdag:worker:{role}"]).fetchall()[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        desk.wait(lambda: desk.silent_seconds(first_id) > 1 if role == "heartbeat" else True)
        assert desk.result(desk.add("echo")).status == "completed"
        assert worker.find_worker_id() == first_id
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("method", ["held_tasks", "beat"])
def test_a_loop_that_hangs_ends_the_life_and_not_the_worker(
    desk: Desk, start_worker: StartWorker, method: str, gate: Gate
) -> None:
    """A call that no deadline reaches. What ran is killed; the next life registers anew and goes on."""
    worker = start_worker(fault={"method": method, "first": 5, "hangs": True}, stuck_seconds=STUCK_SECONDS)
    first_id = worker.wait_until_ready()
    task_id = desk.add("test.gate", {"gate": gate.path})
    second_id = desk.wait(lambda: (found := worker.find_worker_id()) != first_id and found)
    row = desk.wait(lambda: (row := desk.queued(task_id)) and row["worker_id"] != first_id and row)
    if row["worker_id"] is not None:
        assert row["worker_id"].startswith("lost:"), row
        desk.requeue(task_id, lease_losses=1)
    gate.open()
    assert desk.result(task_id).status == "completed"
    desk.wait(lambda: desk.stats(str(second_id)).get("lives") == 2)


def test_a_worker_that_was_frozen_as_a_whole_has_no_loop_that_hangs(desk: Desk, start_worker: StartWorker) -> None:
    """All loops look late for a moment when it wakes; it was not declared dead, so it is still who it was."""
    worker = start_worker(stuck_seconds=STUCK_SECONDS)
    first_id = worker.wait_until_ready()
    assert desk.result(desk.add("echo")).status == "completed"
    worker.send(signal.SIGSTOP)
    desk.wait(lambda: desk.silent_seconds(first_id) > 2 * STUCK_SECONDS)
    worker.send(signal.SIGCONT)
    assert desk.result(desk.add("echo")).status == "completed"
    assert worker.find_worker_id() == first_id
    desk.wait(lambda: desk.silent_seconds(first_id) < 1)
    assert desk.stats(first_id)["lives"] == 1


def test_a_supervisor_that_hangs_ends_the_process(desk: Desk, start_worker: StartWorker, gate: Gate) -> None:
    """Nobody is left to begin anew: whoever started the worker sees its exit code, and its children are gone."""
    worker = start_worker(
        fault={"part": "watch", "method": "go_round", "first": 60, "hangs": True}, stuck_seconds=STUCK_SECONDS
    )
    desk.add("test.gate", {"gate": gate.path})
    children = desk.wait(worker.children)
    assert worker.process.wait(60) == 1
    desk.wait(lambda: all(map(process_is_gone, children)))


def test_a_worker_that_no_new_life_helps_ends(desk: Desk, start_worker: StartWorker) -> None:
    """Whoever started it has to look; what it was to run is free for others."""
    worker = start_worker(fault={"method": "claim", "times": 1000, "most_restarts": 2})
    task_id = desk.add("echo")
    assert worker.process.wait(60) == 1
    assert "WorkerGivenUp: 3 times within 600 s: the thread exchange failed 2 times" in worker.said()
    assert desk.find_result(task_id) is not None or desk.queued(task_id) is not None
