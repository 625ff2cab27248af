"""Two connections whose transactions interleave, one step at a time and always in the same order for a seed.

A transaction may stay open while others act on the other connection. Whoever then waits for one of its locks is seen in
the server's own tables; the open one is committed, and the waiting one goes on. No clock is asked.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from rmhdag.models.rows import ROWS
from rmhdag.store import crash_points
from rmhdag.store.connection import Conn, connect

T = TypeVar("T")
# With the schema before pg_catalog, the store's SQL is told the time of the simulated world, whichever clock it asks.
CLOCKS = {"clock_timestamp": "VOLATILE", "statement_timestamp": "STABLE", "now": "STABLE"}
VIRTUAL_CLOCK = """CREATE OR REPLACE FUNCTION dagapp.{}() RETURNS timestamptz LANGUAGE sql {}
    AS $$ SELECT current_setting('simulation.now')::timestamptz $$"""
SETTLE_POINT = "settle.before_commit"


class Disagreement(AssertionError):
    """PostgreSQL answered, or wrote, something else than the model."""


class Lane:
    """A connection and the one thread that uses it."""

    def __init__(self, dsn: str) -> None:
        self.conn: Conn = connect(dsn, "test", autocommit=True, idle_in_transaction_timeout_seconds=60)
        self.conn.prepare_threshold = 0
        self.conn.execute("SET search_path TO dagapp, pg_catalog")
        self.pid = self.conn.info.backend_pid
        self._thread = ThreadPoolExecutor(1)

    def start(self, act: Callable[[Conn], T], now: datetime) -> Future[T]:
        def run() -> T:
            self.conn.execute("SELECT set_config('simulation.now', %s, false)", [now.isoformat()])
            return act(self.conn)

        return self._thread.submit(run)

    def close(self) -> None:
        self._thread.shutdown()
        self.conn.close()


@dataclass(slots=True)
class OpenTransaction:
    """`actor` has done something to `jobs` that nobody else can see yet."""

    lane: Lane
    actor: str
    jobs: set[str]
    commit: Callable[[], None]
    steps_left: int


class Lanes:
    def __init__(self, dsn: str) -> None:
        self._lanes = (Lane(dsn), Lane(dsn))
        self._monitor: Conn = connect(dsn, "test:monitor", autocommit=True)
        self._monitor.execute("SET search_path TO dagapp")
        for name, volatility in CLOCKS.items():
            self._monitor.execute(VIRTUAL_CLOCK.format(name, volatility).encode())
        self.open: OpenTransaction | None = None
        self.seen: Counter[str] = Counter()

    def clear(self) -> None:
        """Empty tables for the next seed."""
        self._monitor.execute(f"TRUNCATE {', '.join(f'dagapp.{row.table.name}' for row in ROWS)}".encode())

    def close(self) -> None:
        with suppress(Disagreement, psycopg.Error):
            self.commit_open()
        for lane in self._lanes:
            lane.close()
        self._monitor.close()

    @property
    def reader(self) -> Conn:
        """For looking at what is committed."""
        return self._monitor

    def commit_open(self) -> None:
        if self.open is not None:
            done, self.open = self.open, None
            done.commit()

    def _free_lane(self) -> Lane:
        return self._lanes[1 if self.open is not None and self.open.lane is self._lanes[0] else 0]

    def run(self, act: Callable[[Conn], T], now: datetime, *, may_wait: bool = True) -> T:
        """Do it and commit it; if it waits for the open transaction, that one is committed first."""
        lane = self._free_lane()
        running = lane.start(act, now)
        if self.open is not None:
            self._let_pass(lane, running, may_wait)
        return running.result()

    def run_and_stay(
        self, act: Callable[[Conn], T], now: datetime, actor: str, jobs_of: Callable[[T], set[str]], steps: int
    ) -> T:
        """Do it and leave its transaction open, so that the others act before it is committed."""
        assert self.open is None
        lane = self._free_lane()

        def begin(conn: Conn) -> T:
            conn.execute("BEGIN")
            return act(conn)

        answer = lane.start(begin, now).result()
        jobs = jobs_of(answer)
        if not jobs:  # it did nothing that anybody could miss
            _commit(lane, now)
            return answer
        self.open = OpenTransaction(lane, actor, jobs, lambda: _commit(lane, now), steps)
        self.seen["left open"] += 1
        return answer

    def settle_and_stay(
        self,
        act: Callable[[Conn], T],
        now: datetime,
        actor: str,
        jobs: set[str],
        steps: int,
        check: Callable[[T], None],
    ) -> None:
        """The guarded transaction commits by itself: it is stopped at its crash point. `check` sees its answer."""
        assert self.open is None
        lane = self._free_lane()
        reached, go_on = threading.Event(), threading.Event()

        def stop() -> None:
            lane.conn.execute("SELECT 1").fetchone()  # all that was sent so far has happened
            reached.set()
            go_on.wait()

        crash_points.arm(SETTLE_POINT, stop)
        running = lane.start(act, now)
        running.add_done_callback(lambda _: reached.set())
        reached.wait()
        if running.done():
            crash_points.disarm()
            check(running.result())
            return

        def commit() -> None:
            go_on.set()
            check(running.result())

        self.open = OpenTransaction(lane, actor, jobs, commit, steps)
        self.seen["settle left open"] += 1

    def _let_pass(self, lane: Lane, running: Future[Any], may_wait: bool) -> None:
        assert self.open is not None
        blocked = "SELECT %s = ANY(pg_blocking_pids(%s))"
        while not running.done():
            row = self._monitor.execute(blocked, [self.open.lane.pid, lane.pid]).fetchone()
            if row is not None and row[0]:
                self.seen["waited"] += 1
                self.commit_open()
                running.exception()
                if not may_wait:
                    raise Disagreement("a claim waited for a lock instead of passing over the row")
                return
        self.seen["passed"] += 1


def _commit(lane: Lane, now: datetime) -> None:
    lane.start(lambda conn: conn.execute("COMMIT"), now).result()
