"""What tasks wrote, as pages of bounded size, or the last lines of it."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.models.api.nodes import LogChunk
from rmhdag.models.ids import task_id_of
from rmhdag.store import log_pages, views
from rmhdag.store.log_pages import LogPlace

Conn = psycopg.Connection[Any]
# A page ends with the chunk that passes this; a chunk has 64 KB at most.
PAGE_BYTES = 1024 * 1024
MOST_TAIL_CHUNKS = 200


def task_ids_of(conn: Conn, job_id: str, node_id: str) -> list[str]:
    """All attempts of a node: the id of a task follows from job, node and attempt."""
    found = []
    for line in views.attempts(conn, job_id, node_id):
        if line.reused_task_id is not None:
            found.append(line.reused_task_id)
        else:
            found += [task_id_of(job_id, line.node_id, attempt) for attempt in range(1, line.attempt + 1)]
    return found


def read_logs(
    conn: Conn, job_id: str, *, node_id: str | None, is_fan_out: bool, after: LogPlace | None, limit: int
) -> tuple[list[LogChunk], bool]:
    """Chunks behind `after`, and whether there are more."""
    tasks, fan_out = _scope(conn, job_id, node_id, is_fan_out)
    rows = log_pages.page(conn, job_id, tasks=tasks, fan_out=fan_out, after=after, limit=limit + 1)
    size, shown = 0, 0
    while shown < min(len(rows), limit) and size < PAGE_BYTES:
        size += len(rows[shown].content)
        shown += 1
    return [_chunk(row) for row in rows[:shown]], shown < len(rows)


def read_tail(conn: Conn, job_id: str, *, node_id: str | None, is_fan_out: bool, lines: int) -> list[LogChunk]:
    """The last lines, as the chunks that hold them; the first chunk is cut to what is needed."""
    tasks, fan_out = _scope(conn, job_id, node_id, is_fan_out)
    rows = log_pages.last(conn, job_id, tasks=tasks, fan_out=fan_out, limit=min(lines, MOST_TAIL_CHUNKS))
    kept: list[LogChunk] = []
    size = 0
    for row in reversed(rows):
        content = row.content.splitlines(keepends=True)[-lines:]
        kept.append(_chunk(row._replace(content="".join(content))))
        lines -= len(content)
        size += len(row.content)
        if lines <= 0 or size >= PAGE_BYTES:
            break
    return kept[::-1]


def last_place(chunks: list[LogChunk]) -> LogPlace | None:
    if not chunks:
        return None
    last = chunks[-1]
    return LogPlace(last.created_at, last.task_id, last.lease_epoch, last.chunk_index)


def _scope(conn: Conn, job_id: str, node_id: str | None, is_fan_out: bool) -> tuple[list[str] | None, str | None]:
    """The tasks of one node, or a range: a fan-out may have a hundred thousand tasks."""
    if node_id is None:
        return None, None
    return (None, node_id) if is_fan_out else (task_ids_of(conn, job_id, node_id), None)


def _chunk(row: views.LogChunk) -> LogChunk:
    return LogChunk.model_validate(row._asdict())
