"""Workers with different handlers on one queue: each claims what it can run, and nothing is used up by the others."""

from rmhdag.store import suspects
from tests.worker.conftest import QUEUE, Desk, StartWorker

OVER_BOTH_TRANSPORTS = True


def test_a_task_waits_for_a_worker_that_has_its_handler(desk: Desk, start_worker: StartWorker) -> None:
    """A deployment that adds a handler: for a while the older workers serve the same queue."""
    start_worker(handler_modules=[])
    later = [desk.add("test.write_log") for _ in range(20)]
    suspect = desk.add("test.write_log", lease_losses=2)
    now = [desk.add("echo", {"n": number}) for number in range(20)]
    assert {desk.result(task_id).status for task_id in now} == {"completed"}
    for task_id in (*later, suspect):
        row = desk.queued(task_id)
        assert row is not None
        assert (row["worker_id"], row["attempt"], row["lease_epoch"]) == (None, 1, 0), "nobody has claimed it"
    start_worker()
    for task_id in later:
        result = desk.result(task_id)
        assert (result.status, result.lease_epoch) == ("completed", 1)
    assert desk.result(suspect).status == "completed"


def test_an_alias_is_a_handler_too(desk: Desk, start_worker: StartWorker) -> None:
    start_worker(handler_modules=[])
    task_id = desk.add("raster_validate", {"nothing": "of use"})
    assert desk.result(task_id).error_kind == "non_retryable"


def test_a_worker_says_what_it_has(desk: Desk, start_worker: StartWorker) -> None:
    worker = start_worker()
    query = "SELECT handlers FROM dag_workers WHERE worker_id = %s"
    row = desk.conn.execute(query, [worker.find_worker_id()]).fetchone()
    assert row is not None
    assert {"echo", "test.gate", "raster_validate"} <= set(row[0])


def test_a_suspect_that_no_handler_is_there_for_is_no_reason_to_wait(desk: Desk) -> None:
    desk.add("test.gate", lease_losses=2)
    assert suspects.suspect_waits(desk.conn, [QUEUE])
    assert suspects.suspect_waits(desk.conn, [QUEUE], handlers=frozenset({"test.gate", "echo"}))
    assert not suspects.suspect_waits(desk.conn, [QUEUE], handlers=frozenset({"echo"}))
    assert suspects.claim_suspect(desk.conn, "w", [QUEUE], handlers=frozenset({"echo"})) is None
    assert suspects.claim_suspect(desk.conn, "w", [QUEUE], handlers=frozenset({"test.gate"})) is not None
