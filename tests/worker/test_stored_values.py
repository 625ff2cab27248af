"""A task whose parameters are stored apart, while the place where they are stored cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmhdag.store import payloads
from rmhdag.store.connection import connect
from tests.worker.conftest import Desk, StartWorker

OVER_BOTH_TRANSPORTS = True
BLOCKED = """
    SELECT l.pid FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
    WHERE l.relation = 'dag_payloads'::regclass AND NOT l.granted AND a.datname = current_database()
"""


@contextmanager
def locked_values(desk: Desk) -> Iterator[None]:
    with connect(desk.dsn, "locker", idle_in_transaction_timeout_seconds=0) as locker:
        locker.execute("SET search_path TO dagapp")
        locker.execute("LOCK TABLE dag_payloads IN ACCESS EXCLUSIVE MODE")
        yield


def break_a_read(desk: Desk) -> None:
    """Wait until somebody reads a stored value, and end its connection."""
    pid = desk.wait(lambda: desk.conn.execute(BLOCKED.encode()).fetchone())[0]
    desk.conn.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_a_task_whose_value_could_not_be_read_runs_all_the_same(desk: Desk, start_worker: StartWorker) -> None:
    """C6: it was claimed, never passed on and never given back; a worker with one slot claimed nothing ever again."""
    start_worker(concurrency=1)
    reference = payloads.write_json(desk.conn, "default", "job", b'["a large value"]').as_json()
    with locked_values(desk):
        task_id = desk.add("echo", {"value": reference})
        break_a_read(desk)
    assert desk.result(task_id).output["echoed_params"]["value"] == ["a large value"]
    assert desk.result(desk.add("echo")).status == "completed"


def test_others_do_not_wait_for_a_value_that_cannot_be_read(desk: Desk, start_worker: StartWorker) -> None:
    """It is given back after a while, so that a worker which can read it may have it."""
    start_worker(concurrency=2, unread_seconds=0.5)
    reference = payloads.write_json(desk.conn, "default", "job", b'["a large value"]').as_json()
    with locked_values(desk):
        task_id = desk.add("echo", {"value": reference})
        break_a_read(desk)
        desk.wait(lambda: (row := desk.queued(task_id)) and row["lease_epoch"] > 1)
        assert desk.result(desk.add("echo")).status == "completed"
    assert desk.result(task_id).output["echoed_params"]["value"] == ["a large value"]
    assert "task_snoozed" not in [kind for kind, _ in desk.inbox(task_id)], "it never ran"
