"""What a handler returns after it was asked to stop is no result, unless its author says that it is the whole one."""

import pytest

from tests.worker.conftest import Desk, StartWorker

OVER_BOTH_TRANSPORTS = True
CUT_SHORT = [
    ("test.part_of_it", "dict"),
    ("test.part_of_it", "none"),
    ("test.part_of_it", "raise"),
    ("test.catch_interruption", ""),
    ("test.async_part_of_it", "looks"),
    ("test.async_part_of_it", "catches"),
    ("test.phases_that_look", "result"),
    ("test.phases_that_look", "ends"),
]
WHOLE = [("test.part_of_it", "complete"), ("test.phases_that_look", "complete")]


@pytest.mark.parametrize(("handler", "how"), CUT_SHORT)
def test_the_task_of_a_worker_that_stops_is_given_back(
    desk: Desk, start_worker: StartWorker, handler: str, how: str
) -> None:
    worker = start_worker(stop_seconds=3.0)
    task_id = desk.add(handler, {"how": how})
    desk.started(task_id)
    assert worker.end() == 0
    row = desk.queued(task_id)
    assert row is not None
    assert (row["worker_id"], row["started_at"], row["attempt"], row["lease_losses"]) == (None, None, 1, 0)
    assert desk.find_result(task_id) is None
    kind, said = desk.inbox(task_id)[-1]
    assert (kind, said["reason"]) == ("task_snoozed", "worker_stopping")


@pytest.mark.parametrize(("handler", "how"), WHOLE)
def test_the_whole_result_counts_while_the_worker_stops(
    desk: Desk, start_worker: StartWorker, handler: str, how: str
) -> None:
    worker = start_worker()
    task_id = desk.add(handler, {"how": how})
    desk.started(task_id)
    assert worker.end() == 0
    assert desk.result(task_id).status == "completed"


def test_a_task_that_ran_too_long_has_failed_whatever_it_returns(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    ids = [desk.add(handler, {"how": how}, timeout_seconds=1) for handler, how in CUT_SHORT]
    for task_id in ids:
        result = desk.result(task_id)
        assert (result.status, result.error_kind, result.output) == ("failed", "timeout", None)
        assert result.error_message == "it ran longer than its 1 s and was stopped"
    for handler, how in WHOLE:
        assert desk.result(desk.add(handler, {"how": how}, timeout_seconds=1)).status == "completed"


def test_a_cancelled_task_is_cancelled_whatever_it_returns(desk: Desk, start_worker: StartWorker) -> None:
    start_worker(concurrency=3)
    for handler, how in CUT_SHORT:
        task_id = desk.add(handler, {"how": how})
        desk.started(task_id)
        desk.conn.execute("UPDATE dag_queue_messages SET cancel_requested = true WHERE task_id = %s", [task_id])
        assert desk.result(task_id).status == "cancelled"
