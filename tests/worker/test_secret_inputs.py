"""A task that is given a secret: its handler has the value, and nothing that the task says shows it."""

from __future__ import annotations

import pytest

from rmhdag.store.secret_inputs import seal_inputs
from tests.worker.conftest import Desk, Gate, StartWorker

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


LONG_SECRET = "Zq7-" + "".join(f"{number:03}." for number in range(20))
EDGES = [
    ("message", 2_000 - 20),
    ("message", 8_000 - 20),
    ("code", 2_000 - 6),
    ("code from a thread", 2_000 - 6),
    ("output", 180),
    ("model", 0),
    ("log", 65_536 - 6),
    ("log", 1_048_576 - 6),
    ("log in pieces", 0),
    ("log in pieces", 65_536 - 6),
    ("log without an end", 0),
    ("past Python", 0),
    ("past Python", 65_536 - 70),
    ("warning", 500 - 6),
]


@pytest.mark.parametrize(("how", "before"), EDGES)
def test_a_secret_that_lies_across_a_cut_is_masked_whole(
    desk: Desk, start_worker: StartWorker, how: str, before: int
) -> None:
    """Nothing of it remains, neither its beginning before the cut nor its rest behind it."""
    worker = start_worker()
    params = seal_inputs(desk.conn, "default", ["token"], {"token": LONG_SECRET})
    task_id = desk.add("test.tell_secret_across", {**params, "how": how, "before": before})
    desk.result(task_id)
    worker.end()
    told = desk.conn.execute(
        "SELECT concat_ws('|', error_message, error, warnings) FROM dag_task_results WHERE task_id = %s", [task_id]
    ).fetchone()
    assert told is not None
    texts = [str(told[0]), desk.log(task_id), worker.said()]
    assert any("***" in text or "x" * min(before, 1_900) in text for text in texts)
    for text in texts:
        assert "Zq7" not in text
        assert "019." not in text


@pytest.mark.parametrize("before", [0, 2_000 - 6, 3_000 - 6])
def test_progress_is_masked_before_it_is_cut(desk: Desk, start_worker: StartWorker, gate: Gate, before: int) -> None:
    start_worker()
    params = seal_inputs(desk.conn, "default", ["token"], {"token": LONG_SECRET})
    more = {"how": "progress", "before": before, "gate": str(gate.path)}
    task_id = desk.add("test.tell_secret_across", {**params, **more})

    def shown() -> str | None:
        query = "SELECT progress_message FROM dag_task_results WHERE task_id = %s AND progress_message IS NOT NULL"
        row = desk.conn.execute(query, [task_id]).fetchone()
        return None if row is None else str(row[0])

    message = desk.wait(shown)
    gate.open()
    desk.result(task_id)
    assert message.startswith("x" * min(before, 1_900))
    assert message.endswith(("***", "xxx"))
    assert "Zq7" not in message


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
