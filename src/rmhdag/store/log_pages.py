"""What tasks wrote, in pages by time, or the end of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row

from rmhdag.store.queries import load_queries
from rmhdag.store.views import LogChunk

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]


class LogPlace(NamedTuple):
    created_at: datetime
    task_id: str
    lease_epoch: int
    chunk_index: int


BEGIN = LogPlace(datetime(1970, 1, 1, tzinfo=UTC), "", 0, 0)


def page(
    conn: Conn,
    job_id: str,
    *,
    tasks: Sequence[str] | None,
    fan_out: str | None,
    after: LogPlace | None,
    limit: int,
) -> list[LogChunk]:
    """Of these tasks; or of the whole job, or the children of one fan-out, if none are named. Oldest first."""
    given = {"job_id": job_id, "tasks": tasks, "fan_out": fan_out, "limit": limit, **(after or BEGIN)._asdict()}
    return _read(conn, "logs_of_job" if tasks is None else "logs_of_tasks", given)


def last(conn: Conn, job_id: str, *, tasks: Sequence[str] | None, fan_out: str | None, limit: int) -> list[LogChunk]:
    """The newest chunks, oldest first."""
    given = {"job_id": job_id, "tasks": tasks, "fan_out": fan_out, "limit": limit}
    return _read(conn, "last_logs_of_job" if tasks is None else "last_logs_of_tasks", given)[::-1]


def _read(conn: Conn, query: str, given: dict[str, Any]) -> list[LogChunk]:
    with conn.cursor(row_factory=class_row(LogChunk)) as cursor:
        return cursor.execute(SQL[query], given).fetchall()
