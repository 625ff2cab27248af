"""The invariants as SQL, every two seconds, over a connection that no fault touches on purpose."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg

from rmhdag.lab.chaos.workflows import Kind
from rmhdag.store.connection import Conn, connect
from rmhdag.store.queries import load_queries

INTERVAL_SECONDS = 2.0
# The last look reads every row of a campaign, on a machine that may have other work to do.
ANSWER_SECONDS = 600.0
# What changed while the last check ran is looked at again.
OVERLAP = timedelta(seconds=10)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

INVARIANTS = load_queries(str(Path(__file__).with_name("invariants")))
LIVENESS = load_queries(str(Path(__file__).with_name("liveness")))
SETTLEMENT = load_queries(str(Path(__file__).with_name("settlement")))
UNKNOWN_LEASES = LIVENESS.pop("leases_unknown")
# A lease that its worker does not know of is seen at two looks at least, of two heartbeats.
UNKNOWN_SECONDS = 5.0
# How much each structure in the memory of a process may hold; '' is every structure without a bound of its own.
BOUNDS = {"": 20_000, "timers": 2_000, "waiting_entries": 4_000, "handled_jobs": 10_200}
# All jobs have ended: what is still held of them is never given back. Which results were handled is noted for people, a
# few jobs at a time in quiet moments.
LEFT_IN_MEMORY = 200
UNHURRIED = "handled_jobs"


class Violation(NamedTuple):
    invariant: str
    subject: str
    what: str


class Checker:
    """Runs beside the campaign; `violations` is what it found, once each. A restarted server may have another DSN."""

    def __init__(
        self,
        dsn: Callable[[], str],
        schema: str,
        kinds: dict[str, Kind],
        stale_seconds: float,
        *,
        lease_seconds: float = 10.0,
        faults: bool = False,
        grace: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`grace` is what the last fault adds to every limit of liveness, in seconds."""
        self._dsn = dsn
        self._schema = schema
        self._kinds = kinds
        self._stale_seconds = stale_seconds
        self._lease_seconds = lease_seconds
        self._faults = faults
        self._grace = grace
        self._stopping = threading.Event()
        self._since = LONG_AGO
        self._runnable_since: dict[tuple[str, int], datetime] = {}
        self._unknown_since: dict[str, datetime] = {}
        self.violations: dict[Violation, None] = {}
        self.checks = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_SECONDS):
            try:
                with self.connect() as conn:
                    self.check(conn, self._since, self._stale_seconds)
            except psycopg.OperationalError:
                continue  # the database is away; what happened meanwhile is checked when it is back
            except BaseException as error:
                self.error = error
                return

    def connect(self) -> Conn:
        conn = connect(self._dsn(), "chaos:checker", autocommit=True, statement_timeout_seconds=ANSWER_SECONDS)
        conn.execute("SELECT set_config('search_path', %s, false)", [self._schema])
        return conn

    def check(self, conn: Conn, since: datetime, stale_seconds: float) -> None:
        """One look at one snapshot, so that rows of two moments are never compared."""
        with conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = conn.execute("SELECT now()").fetchone()
            assert row is not None
            values = {"since": since, "stale_seconds": stale_seconds}
            for name, query in INVARIANTS.items():
                for subject, what in conn.execute(query, values).fetchall():
                    self.violations[Violation(name, subject, what)] = None
            self._check_liveness(conn, row[0])
            self._check_ends(conn, since)
            self._check_waiting(conn, row[0], stale_seconds)
        self._since = row[0] - OVERLAP
        self.checks += 1

    def _check_liveness(self, conn: Conn, now: datetime) -> None:
        """What is owed is done in time, in every process; later only by what a fault may have held up."""
        grace_seconds = self._grace()
        values = {
            "ttl_seconds": self._lease_seconds,
            "grace_seconds": grace_seconds,
            "faults": self._faults,
            "bounds": json.dumps(BOUNDS),
        }
        for name, query in LIVENESS.items():
            for subject, what in conn.execute(query, values).fetchall():
                self.violations[Violation(name, subject, what)] = None
        unknown = dict(conn.execute(UNKNOWN_LEASES, values).fetchall())
        self._unknown_since = {worker_id: self._unknown_since.get(worker_id, now) for worker_id in unknown}
        for worker_id, since in self._unknown_since.items():
            if (now - since).total_seconds() > UNKNOWN_SECONDS + grace_seconds:
                violation = Violation("workers_know_their_leases", worker_id, unknown[worker_id])
                self.violations[violation] = None

    def _check_ends(self, conn: Conn, since: datetime) -> None:
        """I6 seen from outside: the workflow's result is the one that its input must give."""
        for job_id, workflow_id, status, result, x, error, has_dead_letter, was_cancelled in conn.execute(
            SETTLEMENT["ends"], {"since": since}
        ).fetchall():
            kind = self._kinds[workflow_id]
            if status != kind.status:
                is_right = status in kind.also or (status == "cancelled" and was_cancelled)
                # Three lost leases end a task; that is a promise too, and counted apart.
                if not is_right and not (status == "failed" and has_dead_letter):
                    what = f"{workflow_id} is {status}, not {kind.status}: {error}"
                    self.violations[Violation("i1_jobs_end_as_they_must", job_id, what)] = None
            elif kind.result is not None and result != kind.result(x):
                what = f"{workflow_id} of {x} gave {result}"
                self.violations[Violation("i6_results_are_right", job_id, what)] = None

    def _check_waiting(self, conn: Conn, now: datetime, stale_seconds: float) -> None:
        """I5: nothing waits while somebody could run it. No row says since when: it was seen so at every look.

        Half of the time after which the dead must have been noticed: a connection may be half-open meanwhile.
        """
        waiting = {(row[0], row[1]): (row[2], row[3]) for row in conn.execute(SETTLEMENT["runnable"]).fetchall()}
        self._runnable_since = {lease: self._runnable_since.get(lease, now) for lease in waiting}
        for lease, since in self._runnable_since.items():
            if (now - since).total_seconds() > stale_seconds / 2:
                job_id, node_id = waiting[lease]
                what = f"{node_id} (task {lease[0]}) has waited since {since} although workers have free slots"
                self.violations[Violation("i5_nothing_waits_in_vain", job_id, what)] = None

    def wait_until_memory_is_free(self, conn: Conn, seconds: float) -> None:
        """When every job has ended, nothing of them is kept in memory."""
        deadline = time.monotonic() + seconds
        while True:
            held = conn.execute(SETTLEMENT["held_in_memory"]).fetchall()
            remainder = [row for row in held if row[2] > LEFT_IN_MEMORY and row[1] != UNHURRIED]
            if not remainder:
                return
            if time.monotonic() > deadline:
                for subject, name, count in remainder:
                    violation = Violation("ended_jobs_are_forgotten", subject, f"{name} still holds {count:g}")
                    self.violations[violation] = None
                return
            time.sleep(0.5)

    def check_payloads(self, conn: Conn, unused_seconds: float) -> None:
        for subject, what in conn.execute(SETTLEMENT["unused_payloads"], {"unused_seconds": unused_seconds}).fetchall():
            self.violations[Violation("payloads_without_use_go", subject, what)] = None

    def check_all(self, conn: Conn, accepted: list[str], strict_stale_seconds: float) -> None:
        """Everything there is, when nothing goes wrong any more."""
        self.check(conn, LONG_AGO, strict_stale_seconds)
        for (job_id,) in conn.execute(SETTLEMENT["missing"], {"ids": accepted}).fetchall():
            self.violations[Violation("i1_none_vanishes", job_id, "was accepted and is not there")] = None
