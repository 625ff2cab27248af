"""Workers in the database: who is there, what they hold, and what they tell while their tasks run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
# A checkpoint above this stands in its own table only; the inbox row names it.
INBOX_DATA_BYTES = 4 * 1024


class HeldTask(NamedTuple):
    task_id: str
    lease_epoch: int
    cancel_requested: bool


class TaskProgress(NamedTuple):
    task_id: str
    lease_epoch: int
    current: int
    total: int | None
    percent: float | None
    message: str | None


class LogChunk(NamedTuple):
    task_id: str
    lease_epoch: int
    chunk_index: int
    job_id: str
    node_id: str
    namespace: str
    line_count: int
    truncated: bool
    content: str


def register_worker(
    conn: Conn, worker_id: str, host: str, process_id: int, version: str, slots: int, queues: Sequence[str]
) -> None:
    given = {
        "worker_id": worker_id,
        "host": host,
        "process_id": process_id,
        "version": version,
        "slots": slots,
        "queues": _json(list(queues)),
    }
    conn.execute(SQL["register_worker"], given)


def register_handlers(conn: Conn, manifests: Sequence[dict[str, Any]]) -> None:
    conn.execute(SQL["register_handlers"], {"handlers": _json(list(manifests))})


def beat_if_registered(conn: Conn, worker_id: str, stats: dict[str, Any], *, draining: bool) -> bool:
    """Say that the worker lives; False if it was declared dead, and nothing it holds is its own any more."""
    given = {"worker_id": worker_id, "stats": _json(stats), "draining": draining}
    return conn.execute(SQL["beat"], given).rowcount == 1


def held_tasks(conn: Conn, worker_id: str) -> list[HeldTask]:
    rows = conn.execute(SQL["held_tasks"], {"worker_id": worker_id}, prepare=True).fetchall()
    return [HeldTask(*row) for row in rows]


def save_progress_if_held(conn: Conn, worker_id: str, progress: Sequence[TaskProgress]) -> None:
    conn.execute(
        SQL["save_progress"],
        {"worker_id": worker_id, "progress": _json([tuple(one) for one in progress])},
        prepare=True,
    )


@commit_site
def save_checkpoint_if_held(
    conn: Conn, worker_id: str, task_id: str, lease_epoch: int, phase: str, data: bytes, artifact_hash: str | None
) -> bool:
    """Keep a checkpoint (`data` is JSON text) and tell the owner; False if the lease is gone."""
    given = {
        "worker_id": worker_id,
        "task_id": task_id,
        "lease_epoch": lease_epoch,
        "phase": phase,
        "data": data.decode(),
        "artifact_hash": artifact_hash,
        "is_small": len(data) <= INBOX_DATA_BYTES,
    }
    row = conn.execute(SQL["save_checkpoint"], given).fetchone()
    return row is not None and row[0] is not None


def read_checkpoint(conn: Conn, checkpoint_id: int) -> Any:
    row = conn.execute(SQL["read_checkpoint"], {"checkpoint_id": checkpoint_id}).fetchone()
    return None if row is None else row[0]


def insert_logs(conn: Conn, chunks: Sequence[LogChunk]) -> None:
    conn.execute(SQL["insert_logs"], {"chunks": _json([tuple(one) for one in chunks])}, prepare=True)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
