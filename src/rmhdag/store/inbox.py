"""The inbox of an owner: read without locks, consumed in the transaction that handles it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class InboxEntry(NamedTuple):
    inbox_id: int
    job_id: str
    kind: str
    node_id: str | None
    task_id: str | None
    lease_epoch: int | None
    payload: dict[str, Any]


def read_inbox(conn: Conn, me: str, mark: int, limit: int) -> tuple[datetime, list[InboxEntry]]:
    """The database's time and the oldest entries above the mark, in one round trip."""
    with conn.pipeline():
        clock = conn.execute("SELECT clock_timestamp()", prepare=True)
        entries = conn.execute(SQL["read_inbox"], {"me": me, "mark": mark, "limit": limit}, prepare=True)
    moment = clock.fetchone()
    assert moment is not None
    return moment[0], [InboxEntry(*row) for row in entries.fetchall()]


def discard(conn: Conn, me: str, inbox_ids: Collection[int]) -> None:
    """Entries that say nothing any more."""
    conn.execute(SQL["discard"], {"me": me, "inbox": list(inbox_ids)})


def due_timers(conn: Conn, me: str, limit: int, *, deadlines: bool) -> list[tuple[str, str, int, str]]:
    """(job, node, attempt, timer) of my jobs: retries and, if asked for, deadlines that nothing on its way makes void.

    At most `limit` of each, the earliest first.
    """
    parameters = {"me": me, "limit": limit, "deadlines": deadlines}
    return conn.execute(SQL["due_timers"], parameters, prepare=True).fetchall()
