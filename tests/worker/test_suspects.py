"""A task during whose runs two workers were lost runs with a worker to itself, and is neither lost nor starved."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from rmhdag.store import suspects, tasks
from tests.worker.conftest import QUEUE, Desk, Gate, StartWorker, WorkerProcess


def reported_by(desk: Desk, task_id: str) -> str:
    desk.result(task_id)
    row = desk.conn.execute("SELECT worker_id FROM dag_task_results WHERE task_id = %s", [task_id]).fetchone()
    assert row is not None
    return str(row[0])


def held_by(desk: Desk, task_id: str) -> str:
    row = desk.wait(lambda: (row := desk.queued(task_id)) and row["worker_id"] and row)
    return str(row["worker_id"])


def order_of_reports(desk: Desk) -> list[str]:
    return [row[0] for row in desk.conn.execute("SELECT task_id FROM dag_task_results ORDER BY reported_at")]


def test_nothing_is_claimed_beside_a_suspect(desk: Desk, start_worker: StartWorker, gate: Gate) -> None:
    start_worker()
    suspect = desk.add("test.gate", {"gate": gate.path}, lease_losses=2)
    desk.started(suspect)
    others = [desk.add("echo", {}) for _ in range(5)]
    second = start_worker()
    assert {reported_by(desk, task_id) for task_id in others} == {second.find_worker_id()}
    gate.open()
    assert desk.result(suspect).status == "completed"
    after = desk.add("echo", {})
    assert desk.result(after).status == "completed"


def test_a_busy_worker_ends_what_it_has_before_the_suspect(desk: Desk, worker: WorkerProcess, gate: Gate) -> None:
    """There is no other worker: it is reserved although one of its two slots is free."""
    neighbour = desk.add("test.gate", {"gate": gate.path})
    desk.started(neighbour)
    suspect = desk.add("echo", {}, lease_losses=2)
    held_by(desk, suspect)
    later = desk.add("echo", {})
    row = desk.queued(suspect)
    assert row is not None
    assert row["started_at"] is None
    gate.open()
    desk.result(later)
    assert order_of_reports(desk) == [neighbour, suspect, later]


def test_a_suspect_does_not_starve_behind_a_steady_stream(desk: Desk, worker: WorkerProcess) -> None:
    """New tasks come until the suspect has run."""
    stream = [desk.add("sleep", {"seconds": 0.05}) for _ in range(20)]
    suspect = desk.add("echo", {}, lease_losses=2)

    def more() -> bool:
        stream.extend(desk.add("sleep", {"seconds": 0.05}) for _ in range(2))
        return desk.find_result(suspect) is not None

    desk.wait(more)
    for task_id in stream:
        assert desk.result(task_id).status == "completed"


def test_an_idle_worker_takes_a_suspect_for_which_another_one_waits_long(
    desk: Desk, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Both are busy; the one that reserves itself is not the first to become idle."""
    gates: dict[str, Gate] = {}
    for number in range(2):
        start_worker(concurrency=1, reserve_seconds=0.3)
        gate = Gate(tmp_path / f"gate-{number}")
        neighbour = desk.add("test.gate", {"gate": gate.path})
        gates[str(desk.started(neighbour)["worker_id"])] = gate
    assert len(gates) == 2
    suspect = desk.add("echo", {}, lease_losses=2)
    reserved = held_by(desk, suspect)
    (other,) = gates.keys() - {reserved}
    gates[other].open()
    assert reported_by(desk, suspect) == other
    later = desk.add("echo", {})
    assert reported_by(desk, later) == other
    gates[reserved].open()


def test_a_stopping_worker_gives_a_waiting_suspect_back(desk: Desk, worker: WorkerProcess, gate: Gate) -> None:
    neighbour = desk.add("test.gate", {"gate": gate.path})
    desk.started(neighbour)
    suspect = desk.add("echo", {}, lease_losses=2)
    held_by(desk, suspect)
    worker.send(signal.SIGTERM)
    desk.wait(lambda: (row := desk.queued(suspect)) and row["worker_id"] is None)
    row = desk.queued(suspect)
    assert row is not None
    assert (row["lease_losses"], row["started_at"]) == (2, None)


def test_a_child_that_dies_takes_only_its_own_task(desk: Desk, worker: WorkerProcess, gate: Gate) -> None:
    neighbour = desk.add("test.gate", {"gate": gate.path})
    desk.started(neighbour)
    assert desk.result(desk.add("test.exit")).error_kind == "worker_died"
    gate.open()
    assert desk.result(neighbour).status == "completed"


def register(desk: Desk, *worker_ids: str, queue: str = QUEUE) -> None:
    for worker_id in worker_ids:
        desk.conn.execute(
            "INSERT INTO dag_workers (worker_id, host, process_id, version, slots, queues)"
            " VALUES (%s, 'h', 1, '1', 1, jsonb_build_array(%s::text))",
            [worker_id, queue],
        )


def claim(desk: Desk, worker_id: str) -> Any:
    found = suspects.claim_suspect(desk.conn, worker_id, [QUEUE, "elsewhere"])
    return None if found is None else found.task_id


def test_suspects_and_others_are_claimed_apart(desk: Desk) -> None:
    register(desk, "w1")
    suspect, other = desk.add("echo", lease_losses=2), desk.add("echo")
    assert [one.task_id for one in tasks.claim_tasks(desk.conn, "w1", QUEUE, 10)] == [other]
    assert suspects.suspect_waits(desk.conn, [QUEUE])
    assert not suspects.suspect_waits(desk.conn, ["elsewhere"])
    assert claim(desk, "w1") == suspect
    assert not suspects.suspect_waits(desk.conn, [QUEUE])
    assert claim(desk, "w1") is None


def test_a_delayed_suspect_waits_for_its_time(desk: Desk) -> None:
    register(desk, "w1")
    desk.add("echo", lease_losses=2, available_at="2999-01-01")
    assert not suspects.suspect_waits(desk.conn, [QUEUE])
    assert claim(desk, "w1") is None


def test_half_of_the_workers_are_left_to_the_others(desk: Desk) -> None:
    register(desk, "w1", "w2", "w3", "w4")
    register(desk, "elsewhere", queue="unrelated")
    waiting = [desk.add("echo", lease_losses=2) for _ in range(4)]
    assert [claim(desk, f"w{number}") for number in (1, 2, 3)] == [*waiting[:2], None]
    tasks.release_tasks(desk.conn, "w1", [(waiting[0], 1, None)])
    assert claim(desk, "w3") == waiting[0]


def test_the_suspect_of_a_dead_worker_counts_no_more(desk: Desk) -> None:
    register(desk, "w1", "w2")
    waiting = [desk.add("echo", lease_losses=2) for _ in range(2)]
    assert claim(desk, "w1") == waiting[0]
    assert claim(desk, "w2") is None
    desk.declare_dead("w1")
    assert claim(desk, "w2") == waiting[1]
