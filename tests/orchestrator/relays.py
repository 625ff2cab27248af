"""The threads beside the loop, with an error at every statement that they send."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from time import monotonic

import orjson
from psycopg.types.json import set_json_loads

from rmhdag.observability.supervision import Supervisor
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.life_threads import LifeThreads
from rmhdag.orchestrator.trust import Trust
from rmhdag.store.connection import Conn
from tests.orchestrator.faulty import FaultyConnection, open_faulty
from tests.orchestrator.platform import Platform, Seat
from tests.store.waiting import wait_until

# A relay looks again so often, and an outcome is waited for so long.
POLL_SECONDS = 0.02
MOST_STATEMENTS = 300
# A claim that nobody works on any more is due again after so long. Work on one takes less.
LEASE_SECONDS = 0.5


class Leases:
    """Ends all claims of the tables once in a while, instead of the seconds and minutes that they last."""

    def __init__(self, platform: Platform, *tables: str) -> None:
        self._conn = platform.conn
        self._tables = tables
        self._due = monotonic() + LEASE_SECONDS

    def end(self) -> None:
        if monotonic() < self._due:
            return
        self._due = monotonic() + LEASE_SECONDS
        for table in self._tables:
            update = f"UPDATE {table} SET next_attempt_at = '2000-01-01' WHERE status::text IN ('pending', 'deleting')"
            self._conn.execute(update.encode())


def fail_at_every_statement(
    platform: Platform,
    seat: Seat,
    thread: str,
    settings: OrchestratorSettings,
    fault: Exception | None,
    prepare: Callable[[], None],
    is_done: Callable[[], bool],
) -> int:
    """Prepare the work anew, let the thread's first connection fail (or break, without a fault) at its first, second…
    statement, and wait for the end of the work; until the work is done before the fault is reached. Returns the number
    of statements.
    """
    for statement in count(1):
        assert statement < MOST_STATEMENTS
        prepare()
        if not _has_failed(platform, seat, thread, settings, (statement, fault), is_done):
            return statement - 1
    raise AssertionError


def do_undisturbed(
    platform: Platform, seat: Seat, thread: str, settings: OrchestratorSettings, is_done: Callable[[], bool]
) -> None:
    """Run the thread until the work is done; what fails, fails by itself."""
    assert not _has_failed(platform, seat, thread, settings, None, is_done)


def _has_failed(
    platform: Platform,
    seat: Seat,
    thread: str,
    settings: OrchestratorSettings,
    fault: tuple[int, Exception | None] | None,
    is_done: Callable[[], bool],
) -> bool:
    """Whether the fault came before the work was done, which it is afterwards."""
    over, reasons, opened = threading.Event(), list[str](), list[FaultyConnection]()

    def connect(part: str) -> Conn:
        conn = open_faulty(platform.dsn)
        set_json_loads(orjson.loads, conn)
        if fault is not None and not opened:
            _prepare_fault(conn, *fault)
        opened.append(conn)
        return conn

    threads = LifeThreads(seat.me, "dagapp", settings, seat.advance, Trust(10, 2), over, threading.Event(), connect)
    supervisor = Supervisor(over, reasons.append)
    supervisor.start(thread, getattr(threads, thread), 600.0)
    try:
        wait_until(is_done)
        has_failed = fault is not None and opened[0].action is None
    finally:
        over.set()
        still_running = supervisor.join(20)
    assert (reasons, still_running) == ([], [])
    assert all(conn.closed for conn in opened), "no connection is left behind"
    return has_failed


def _prepare_fault(conn: FaultyConnection, statement: int, fault: Exception | None) -> None:
    if fault is None:
        conn.break_at(statement)
    else:
        conn.fail_at(statement, fault)
