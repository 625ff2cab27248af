"""The database goes away while tasks run, and comes back."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.store.connection import connect
from tests.store.waiting import wait_until
from tests.worker.conftest import Desk, Gate, WorkerProcess


@contextmanager
def outage(server: EmbeddedPostgres, desk: Desk) -> Iterator[psycopg.Connection]:
    """Nobody gets in, and whoever was in is thrown out."""
    name = sql.Identifier(desk.conn.info.dbname)
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        throw_out = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        admin.execute(throw_out, [desk.conn.info.dbname])
        yield admin
        admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    desk.conn.close()
    desk.conn = connect(desk.dsn, "desk", autocommit=True)
    desk.conn.execute("SET search_path TO dagapp")


def test_tasks_that_end_during_an_outage_are_reported_after_it(
    desk: Desk, worker: WorkerProcess, gate: Gate, server: EmbeddedPostgres
) -> None:
    """The worker keeps its id, its children and its results; a repeated report changes nothing."""
    worker_id = worker.wait_until_ready()
    children = worker.children()
    task_id = desk.add("test.gate", {"gate": gate.path})
    desk.started(task_id)
    with outage(server, desk):
        gate.open()
        assert worker.process.poll() is None
    result = desk.result(task_id)
    assert (result.status, result.lease_epoch) == ("completed", 1)
    assert [kind for kind, _ in desk.inbox(task_id)] == ["task_started", "task_reported"]
    assert desk.result(desk.add("echo")).status == "completed"
    assert worker.find_worker_id() == worker_id
    assert worker.children() == children


def test_a_task_that_ends_in_time_is_reported_as_such_however_long_nobody_could_be_reached(
    desk: Desk, worker: WorkerProcess, gate: Gate, server: EmbeddedPostgres
) -> None:
    """Its time is that of its run, by the worker's own clock; waiting with its result costs nothing of it."""
    worker.wait_until_ready()
    in_time = desk.add("test.gate", {"gate": gate.path}, timeout_seconds=3)
    too_long = desk.add("sleep", {"seconds": 60}, timeout_seconds=3)
    for task_id in (in_time, too_long):
        desk.started(task_id)
    with outage(server, desk) as admin:
        gate.open()
        began = admin.execute("SELECT clock_timestamp()").fetchone()
        is_over = "SELECT clock_timestamp() > %s::timestamptz + interval '5 seconds'"
        wait_until(lambda: admin.execute(is_over, began).fetchone() == (True,))
    assert desk.result(in_time).status == "completed"
    result = desk.result(too_long)
    assert (result.status, result.error_kind) == ("failed", "timeout")


def test_work_goes_on_through_a_row_of_broken_connections(desk: Desk, worker: WorkerProcess) -> None:
    """F13: every answer may be lost; each task is recorded once all the same."""
    query = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'rmhdag:worker%%'"""
    tasks = []
    for _ in range(10):
        tasks += [desk.add("echo", {"n": n}) for n in range(20)]
        desk.conn.execute(query.encode())
    results = [desk.result(task_id) for task_id in tasks]
    assert {result.status for result in results} == {"completed"}
    counted = desk.conn.execute("SELECT count(*), count(DISTINCT task_id) FROM dag_task_results").fetchone()
    assert counted == (200, 200)
    reported = desk.conn.execute("SELECT count(*) FROM dag_inbox WHERE kind = 'task_reported'").fetchone()
    assert reported == (200,)
