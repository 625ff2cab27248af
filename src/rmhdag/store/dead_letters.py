"""Dead letters: tasks and messages that were given up, listed, found, and settled once."""

from __future__ import annotations

from typing import Any

import orjson
from psycopg.rows import class_row, dict_row

from rmhdag.models.api.queues import DeadLetterSummary
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


def dead_letters(
    conn: Conn,
    namespace: str,
    *,
    settled_too: bool = False,
    queue: str | None = None,
    reason: str | None = None,
    job_id: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[DeadLetterSummary]:
    """Oldest first; `after` is the id that the page before ended with."""
    filters = {
        "namespace": namespace,
        "all": settled_too,
        "queue": queue,
        "reason": reason,
        "job_id": job_id,
        "after": after,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(DeadLetterSummary)) as cursor:
        return cursor.execute(SQL["list"], filters).fetchall()


def read_dead_letter(conn: Conn, namespace: str, dead_letter_id: str) -> dict[str, Any] | None:
    """All that is kept of one; of a raw message only the beginning."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["read"], {"namespace": namespace, "letter": dead_letter_id}).fetchone()


def find_dead_letter(conn: Conn, namespace: str, dead_letter_id: str) -> DeadLetterSummary | None:
    with conn.cursor(row_factory=class_row(DeadLetterSummary)) as cursor:
        return cursor.execute(SQL["read"], {"namespace": namespace, "letter": dead_letter_id}).fetchone()


def settle_dead_letter(
    conn: Conn, namespace: str, dead_letter_id: str, by: str, how: str, details: dict[str, Any] | None = None
) -> bool:
    """False if somebody else was first."""
    parameters = {
        "namespace": namespace,
        "letter": dead_letter_id,
        "by": by,
        "as": how,
        "details": orjson.dumps(details or {}).decode(),
    }
    return conn.execute(SQL["settle"], parameters).rowcount == 1
