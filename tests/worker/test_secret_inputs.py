"""A task that is given a secret: its handler has the value, and nothing that the task says shows it."""

from __future__ import annotations

import pytest

from rmhdag.store.secret_inputs import seal_inputs
from tests.worker.conftest import Desk, StartWorker

OVER_BOTH_TRANSPORTS = True
SECRET = 'pass"word-of-älice'


def sealed(desk: Desk) -> dict[str, object]:
    return seal_inputs(desk.conn, "default", ["token"], {"token": SECRET})


def test_the_handler_gets_the_value(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    found = desk.result(desk.add("test.measure_secret", sealed(desk)))
    assert found.status == "completed", found.error_message
    assert found.output == {"characters": len(SECRET)}


def test_an_output_that_would_show_it_is_refused(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    found = desk.result(desk.add("echo", {"deep": [sealed(desk)]}))
    assert (found.status, found.error_kind, found.output) == ("failed", "non_retryable", None)
    assert found.error_message == (
        "the handler's output would show the value of a secret input at /echoed_params/deep/0/token; leave it out"
    )


def test_errors_progress_and_logs_are_masked(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    task_id = desk.add("test.tell_secret", sealed(desk))
    found = desk.result(task_id)
    assert found.error_message == "RuntimeError: refused ***"
    rows = desk.conn.execute("SELECT content FROM dag_task_logs WHERE task_id = %s", [task_id]).fetchall()
    text = "".join(row[0] for row in rows)
    assert "signing in with ***" in text
    assert SECRET not in text
    told = desk.conn.execute("SELECT progress_message FROM dag_task_results WHERE task_id = %s", [task_id]).fetchone()
    assert told is not None
    assert SECRET not in str(told[0])


def test_errors_with_a_code_and_warnings_are_masked(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    task_id = desk.add("test.tell_secret_with_code", sealed(desk))
    assert desk.result(task_id).error_message == "refused ***"
    query = "SELECT error, warnings FROM dag_task_results WHERE task_id = %s"
    row = desk.conn.execute(query, [task_id]).fetchone()
    assert row is not None
    error, warnings = row
    assert (error["message"], error["remediation"]) == ("refused ***", "use another than ***")
    assert error["details"] == {"sent": [{"***": "***"}]}
    assert [warning["message"] for warning in warnings] == ["sent ***"]


@pytest.mark.parametrize("handler", ["test.tell_secret", "test.tell_secret_with_code"])
def test_the_workers_own_log_is_masked(desk: Desk, start_worker: StartWorker, handler: str) -> None:
    worker = start_worker()
    desk.result(desk.add(handler, sealed(desk)))
    worker.end()
    log = worker.said()
    assert "task_failed" in log
    assert "refused ***" in log
    assert SECRET not in log


def test_a_checkpoint_that_holds_it_is_refused(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    found = desk.result(desk.add("test.save_secret", sealed(desk)))
    assert found.status == "failed"
    assert "the checkpoint's data holds the value of a secret input at /token" in str(found.error_message)


def test_a_checkpoint_whose_phase_holds_it_is_refused(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    found = desk.result(desk.add("test.save_secret_as_phase", sealed(desk)))
    assert found.status == "failed"
    assert "the checkpoint's phase holds the value of a secret input" in str(found.error_message)
