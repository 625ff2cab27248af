"""A namespace that may not use all slots of the only worker runs its tasks in some of them, one behind the other."""

from __future__ import annotations

from rmhdag.store import quotas
from tests.worker.conftest import Desk, Gate, WorkerProcess


def share_slots(desk: Desk) -> None:
    """As the duty does when two namespaces are in use: of two slots each may use one."""
    for namespace in ("alpha", "beta"):
        desk.conn.execute("INSERT INTO dag_namespaces (namespace) VALUES (%s)", [namespace])
        quotas.watch_namespace(desk.conn, namespace, is_watched=True, running_tasks=10_000, running_share=75)


def test_tasks_that_take_long_leave_a_slot_to_others(desk: Desk, worker: WorkerProcess, gate: Gate) -> None:
    """The worker has had short tasks only, so it takes many at once."""
    for task_id in [desk.add("test.write_log") for _ in range(60)]:
        assert desk.result(task_id).status == "completed"
    share_slots(desk)
    long_ones = [desk.add("test.gate", {"gate": gate.path}, namespace="alpha") for _ in range(4)]
    desk.started(long_ones[0])
    for _ in range(3):
        short = [desk.add("test.write_log", namespace="beta") for _ in range(20)]
        assert {desk.result(task_id).status for task_id in short} == {"completed"}
    rows = [desk.queued(task_id) for task_id in long_ones]
    assert [row["started_at"] is not None for row in rows if row] == [True, False, False, False]
    for number in range(1, len(long_ones) + 1):
        gate.open()
        desk.wait(lambda: sum(desk.find_result(task_id) is not None for task_id in long_ones) == number)  # noqa: B023


def test_short_tasks_use_the_slots_of_their_namespace(desk: Desk, worker: WorkerProcess) -> None:
    share_slots(desk)
    given = [desk.add("test.write_log", namespace=namespace) for _ in range(100) for namespace in ("alpha", "beta")]
    assert {desk.result(task_id).status for task_id in given} == {"completed"}
