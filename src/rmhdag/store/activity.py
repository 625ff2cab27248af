"""What has lately ended, what fails, and what orchestrators have to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.rows import dict_row

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Rows = list[dict[str, Any]]
# Enough to see what fails; a storm of failures must not make the page slow.
MOST_FAILURES = 5_000
MOST_EVENTS = 20_000


def last_completions(conn: Conn, namespace: str) -> Rows:
    return _read(conn, "last_completions", {"namespace": namespace})


def last_failures(conn: Conn, namespace: str) -> Rows:
    return _read(conn, "last_failures", {"namespace": namespace})


def failing_handlers(conn: Conn, namespace: str) -> Rows:
    return _read(conn, "failing_handlers", {"namespace": namespace, "limit": MOST_FAILURES})


def orchestrator_events(conn: Conn, namespace: str, owners: Sequence[str] | None, with_errors: bool) -> Rows:
    """Newest first; of all, also of those that are gone, if no owners are named."""
    chosen = None if owners is None else list(owners)
    return _read(conn, "orchestrator_events", {"namespace": namespace, "owners": chosen, "with_errors": with_errors})


def takeovers(conn: Conn, namespace: str) -> Rows:
    """Newest first, among the newest events."""
    return _read(conn, "takeovers", {"namespace": namespace, "looked_at": MOST_EVENTS})


def _read(conn: Conn, query: str, parameters: dict[str, Any]) -> Rows:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[query], parameters).fetchall()
