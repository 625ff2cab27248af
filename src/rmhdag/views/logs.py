"""What tasks wrote, as pages of bounded size, or the last lines of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rmhdag.models.api.nodes import LogChunk
from rmhdag.models.ids import task_id_of
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all

SQL = load_queries(__file__)

# A page ends with the chunk that passes this; a chunk has 64 KB at most.
PAGE_BYTES = 1024 * 1024
MOST_TAIL_CHUNKS = 200


class LogPlace(NamedTuple):
    created_at: datetime
    task_id: str
    lease_epoch: int
    chunk_index: int


BEGIN = LogPlace(datetime(1970, 1, 1, tzinfo=UTC), "", 0, 0)


def task_ids_of(conn: Conn, job_id: str, node_id: str) -> list[str]:
    """All attempts of a node: the id of a task follows from job, node and attempt."""
    task_ids: list[str] = []
    for sent_id, attempts, reused_task_id in conn.execute(SQL["attempts"], {"job_id": job_id, "node_id": node_id}):
        if reused_task_id is not None:
            task_ids.append(reused_task_id)
        else:
            task_ids += [task_id_of(job_id, sent_id, attempt) for attempt in range(1, attempts + 1)]
    return task_ids


def read_logs(
    conn: Conn, job_id: str, *, node_id: str | None, is_fan_out: bool, after: LogPlace | None, limit: int
) -> tuple[list[LogChunk], bool]:
    """Chunks behind `after`, and whether there are more."""
    tasks, fan_out = log_scope(conn, job_id, node_id, is_fan_out)
    rows = read_page(conn, job_id, tasks=tasks, fan_out=fan_out, after=after, limit=limit + 1)
    size, count = 0, 0
    while count < min(len(rows), limit) and size < PAGE_BYTES:
        size += len(rows[count].content)
        count += 1
    return rows[:count], count < len(rows)


def read_tail(conn: Conn, job_id: str, *, node_id: str | None, is_fan_out: bool, lines: int) -> list[LogChunk]:
    """The last lines, as the chunks that hold them; the first chunk is cut to what is needed."""
    tasks, fan_out = log_scope(conn, job_id, node_id, is_fan_out)
    parameters = _parameters(job_id, tasks, fan_out, min(lines, MOST_TAIL_CHUNKS))
    rows = read_all(conn, LogChunk, SQL["last_logs_of_job" if tasks is None else "last_logs_of_tasks"], parameters)
    tail: list[LogChunk] = []
    size = 0
    for row in rows:
        content = row.content.splitlines(keepends=True)[-lines:]
        size += len(row.content)
        row.content = "".join(content)
        tail.append(row)
        lines -= len(content)
        if lines <= 0 or size >= PAGE_BYTES:
            break
    return tail[::-1]


def last_place(chunks: list[LogChunk]) -> LogPlace | None:
    if not chunks:
        return None
    last = chunks[-1]
    return LogPlace(last.created_at, last.task_id, last.lease_epoch, last.chunk_index)


def log_scope(conn: Conn, job_id: str, node_id: str | None, is_fan_out: bool) -> tuple[list[str] | None, str | None]:
    """The tasks of one node, or a range: a fan-out may have a hundred thousand tasks."""
    if node_id is None:
        return None, None
    return (None, node_id) if is_fan_out else (task_ids_of(conn, job_id, node_id), None)


def read_page(
    conn: Conn,
    job_id: str,
    *,
    tasks: Sequence[str] | None = None,
    fan_out: str | None = None,
    after: LogPlace | None = None,
    limit: int = 200,
) -> list[LogChunk]:
    """Of these tasks; or of the whole job, or the children of one fan-out, if none are named. Oldest first."""
    parameters = _parameters(job_id, tasks, fan_out, limit) | (after or BEGIN)._asdict()
    return read_all(conn, LogChunk, SQL["logs_of_job" if tasks is None else "logs_of_tasks"], parameters)


def _parameters(job_id: str, tasks: Sequence[str] | None, fan_out: str | None, limit: int) -> dict[str, Any]:
    return {"job_id": job_id, "tasks": tasks, "fan_out": fan_out, "limit": limit}
