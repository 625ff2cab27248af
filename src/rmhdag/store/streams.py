"""Events as they come: of some jobs by number, or of all jobs in an order in which none is ever missed.

Transactions that began earlier may commit later. So the stream of all jobs is in the order of transactions, and ends
below the oldest that is still running: what it has passed can never be joined by more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from psycopg.rows import args_row

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)

PAGE = 1_000
_WRITTEN = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9A-Za-z_.-]{0,64})")
# No transaction of ours lasts longer, so times are in the order of transactions but for this.
_DISORDER = timedelta(seconds=10)


class Place(NamedTuple):
    """A place in the stream of all jobs, behind this event. As text it is for callers to keep, not to read."""

    transaction_id: int
    job_id: str = ""
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.transaction_id}.{self.seq}.{self.job_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise ValueError("not a place in the stream")
        return cls(int(match[1]), match[3], int(match[2]))


class StreamRow(NamedTuple):
    transaction_id: int
    job_id: str
    seq: int
    namespace: str
    created_at: datetime
    event_type: str
    event_status: str
    node_id: str | None
    task_id: str | None
    duration_ms: int | None
    error_message: str | None
    event_data: dict[str, Any]

    @property
    def place(self) -> Place:
        return Place(self.transaction_id, self.job_id, self.seq)


class Wanted(NamedTuple):
    """Events of these jobs, and those of these types (all, if none is named) of all jobs of these namespaces."""

    jobs: Collection[str] = ()
    namespaces: Collection[str] = ()
    event_types: Collection[str] | None = None


class Page(NamedTuple):
    """All wanted events behind the place that was asked for, as far as `until`."""

    rows: list[StreamRow]
    until: Place
    is_last: bool
    # Numbers of transactions: all below the first have ended, and none from the second on has begun.
    horizon: int
    newest: int


class JobPage(NamedTuple):
    """`ended`: nothing but a note of a rerun will follow these rows."""

    rows: list[StreamRow]
    is_last: bool
    status: str | None
    ended: bool


def now(conn: Conn) -> Place:
    """Behind everything that has ended."""
    return Place(_horizon(conn)[0])


def read_all(conn: Conn, after: Place, events: Wanted, limit: int = PAGE) -> Page:
    with conn.transaction():
        horizon, newest = _horizon(conn)
        parameters = {
            **after._asdict(),
            "horizon": horizon,
            "jobs": list(events.jobs),
            "namespaces": list(events.namespaces),
            "event_types": None if events.event_types is None else "{" + ",".join(events.event_types) + "}",
            "limit": limit,
        }
        # Planned each time, so that the arrays are known then: a long one is hashed instead of walked for each row.
        rows = _rows(conn, "read_all", parameters, prepare=False)
    is_last = len(rows) < limit
    return Page(rows, max(after, Place(horizon)) if is_last else rows[-1].place, is_last, horizon, newest)


def find_since(conn: Conn, since: datetime) -> Place:
    """Before the first event of that moment; what was written shortly before may be behind this place as well."""
    with conn.transaction():
        horizon, _ = _horizon(conn)
        low, high = 0, horizon
        while low < high:
            middle = (low + high) // 2
            row = conn.execute(SQL["first_from"], {"transaction_id": middle, "horizon": horizon}).fetchone()
            if row is None or row[1] + _DISORDER >= since:
                high = middle
            else:
                low = row[0] + 1
    return Place(low)


def has_job(conn: Conn, namespace: str, job_id: str) -> bool:
    return conn.execute(SQL["job_state"], {"namespace": namespace, "job_id": job_id}).fetchone() is not None


def read_job(conn: Conn, namespace: str, job_id: str, after: int, limit: int = PAGE) -> JobPage | None:
    """None if there is no such job."""
    # Before the events: if the job has ended by now, its last event is among them.
    state = conn.execute(SQL["job_state"], {"namespace": namespace, "job_id": job_id}).fetchone()
    if state is None:
        return None
    rows = read_jobs(conn, {job_id: after}, limit)
    return JobPage(rows, len(rows) < limit, state[0], state[1])


def read_jobs(conn: Conn, after: Mapping[str, int], limit: int = PAGE) -> list[StreamRow]:
    """The next events of each of these jobs; at most so many of each."""
    return _rows(conn, "read_jobs", {"jobs": list(after), "after": list(after.values()), "limit": limit})


def _horizon(conn: Conn) -> tuple[int, int]:
    row = conn.execute(SQL["horizon"]).fetchone()
    assert row is not None
    return row[0], row[1]


def _rows(conn: Conn, query: str, parameters: dict[str, Any], prepare: bool | None = None) -> list[StreamRow]:
    with conn.cursor(row_factory=args_row(StreamRow)) as cursor:
        return cursor.execute(SQL[query], parameters, prepare=prepare).fetchall()
