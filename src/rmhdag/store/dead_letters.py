"""What could not be handled and waits for a person: listed, found, settled once."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg.rows import dict_row

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]


class DeadLetterLine(NamedTuple):
    dead_letter_id: str
    queue: str | None
    reason: str
    error_message: str | None
    job_id: str | None
    node_id: str | None
    task_id: str | None
    created_at: datetime
    settled_at: datetime | None
    settled_by: str | None
    settled_as: str | None


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
) -> list[DeadLetterLine]:
    """Oldest first; `after` is the id that the page before ended with."""
    given = {
        "namespace": namespace,
        "all": settled_too,
        "queue": queue,
        "reason": reason,
        "job_id": job_id,
        "after": after,
        "limit": limit,
    }
    return [DeadLetterLine(*row) for row in conn.execute(SQL["list"], given).fetchall()]


def read_dead_letter(conn: Conn, namespace: str, dead_letter_id: str) -> dict[str, Any] | None:
    """All that is kept of one; of a raw message only the beginning."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["read"], {"namespace": namespace, "letter": dead_letter_id}).fetchone()


def find_dead_letters(conn: Conn, namespace: str, prefix: str) -> list[DeadLetterLine]:
    """The one of this id; up to two whose ids begin so, if none is called so."""
    found = [DeadLetterLine(*row) for row in conn.execute(SQL["find"], {"namespace": namespace, "prefix": prefix})]
    return [line for line in found if line.dead_letter_id == prefix] or found


def settle_dead_letter(
    conn: Conn, namespace: str, dead_letter_id: str, by: str, how: str, details: dict[str, Any] | None = None
) -> bool:
    """False if somebody else was first."""
    given = {
        "namespace": namespace,
        "letter": dead_letter_id,
        "by": by,
        "as": how,
        "details": orjson.dumps(details or {}).decode(),
    }
    return conn.execute(SQL["settle"], given).rowcount == 1
