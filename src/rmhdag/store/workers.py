"""Workers in the database: their registration, their leases, and their reports while tasks run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import orjson

from rmhdag.models.leases import BeatAnswer, HeldTask, LogChunk, TaskProgress
from rmhdag.store.batch_rows import HeldLogChunk, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.processes import beat_answer, remove_workers
from rmhdag.store.queries import load_queries
from rmhdag.store.tasks import release_tasks

SQL = load_queries(__file__)
# A checkpoint above this stands in its own table only; the inbox row names it.
INBOX_DATA_BYTES = 4 * 1024
# A lease's log, and a little for what ends it.
LOG_BYTES = 1024 * 1024 + 64 * 1024


class Registration(NamedTuple):
    registered_by: str | None
    slots: int
    queues: list[str]
    handlers: list[str] | None


def register_worker(
    conn: Conn,
    worker_id: str,
    host: str,
    process_id: int,
    version: str,
    slots: int,
    queues: Sequence[str],
    handlers: Collection[str] | None = None,
    registered_by: str | None = None,
    namespace: str | None = None,
) -> None:
    """`handlers` are names and aliases of what it can run; None: it did not say."""
    parameters = {
        "worker_id": worker_id,
        "host": host,
        "process_id": process_id,
        "version": version,
        "slots": slots,
        "queues": _json(list(queues)),
        "handlers": None if handlers is None else _json(sorted(handlers)),
        "registered_by": registered_by,
        "namespace": namespace,
    }
    conn.execute(SQL["register_worker"], parameters)


@commit_site
def unregister_worker(conn: Conn, worker_id: str) -> int:
    """Give back all that the worker still holds, and take it off the list; returns how many tasks that were.

    A claim may have been under way when it decided to go. Nothing of that has started, and nobody is to blame for it.
    """
    with conn.transaction():
        held = [(task.task_id, task.lease_epoch, None) for task in held_tasks(conn, worker_id)]
        given_back = release_tasks(conn, worker_id, held) if held else set()
        remove_workers(conn, [worker_id])
    return len(given_back)


def registration(conn: Conn, worker_id: str) -> Registration | None:
    row = conn.execute(SQL["registration"], {"worker_id": worker_id}, prepare=True).fetchone()
    return None if row is None else Registration(*row)


def register_handlers(conn: Conn, manifests: Sequence[dict[str, Any]], *, namespace: str | None = None) -> None:
    """For all namespaces, or for one, which changes nothing that others have."""
    query = SQL["register_handlers" if namespace is None else "register_namespace_handlers"]
    conn.execute(query, {"handlers": _json(list(manifests)), "namespace": namespace})


def beat_if_registered(conn: Conn, worker_id: str, stats: dict[str, Any], *, draining: bool) -> BeatAnswer:
    """Say that the worker lives."""
    parameters = {"worker_id": worker_id, "stats": _json(stats), "draining": draining}
    return beat_answer(conn.execute(SQL["beat"], parameters).fetchone())


def held_tasks(conn: Conn, worker_id: str) -> list[HeldTask]:
    rows = conn.execute(SQL["held_tasks"], {"worker_id": worker_id}, prepare=True).fetchall()
    return [HeldTask(*row) for row in rows]


def save_progress_if_held(conn: Conn, worker_id: str, progress: Sequence[TaskProgress]) -> set[str]:
    """Returns the tasks whose lease still matched."""
    parameters = {"worker_id": worker_id, "progress": encode_rows(progress)}
    return {row[0] for row in conn.execute(SQL["save_progress"], parameters, prepare=True).fetchall()}


@commit_site
def save_checkpoint_if_held(
    conn: Conn, worker_id: str, task_id: str, lease_epoch: int, phase: str, data: bytes, artifact_hash: str | None
) -> bool:
    """Keep a checkpoint (`data` is JSON text) and tell the owner; False if the lease is gone."""
    parameters = {
        "worker_id": worker_id,
        "task_id": task_id,
        "lease_epoch": lease_epoch,
        "phase": phase,
        "data": data.decode(),
        "artifact_hash": artifact_hash,
        "is_small": len(data) <= INBOX_DATA_BYTES,
    }
    row = conn.execute(SQL["save_checkpoint"], parameters).fetchone()
    return row is not None and row[0] is not None


def read_checkpoint(conn: Conn, checkpoint_id: int) -> Any:
    row = conn.execute(SQL["read_checkpoint"], {"checkpoint_id": checkpoint_id}).fetchone()
    return None if row is None else row[0]


def insert_logs(conn: Conn, chunks: Sequence[LogChunk]) -> None:
    conn.execute(SQL["insert_logs"], {"chunks": encode_rows(chunks)}, prepare=True)


def insert_logs_if_held(conn: Conn, worker_id: str, chunks: Sequence[HeldLogChunk]) -> dict[int, bool]:
    """Keep chunks of tasks that this worker holds: by position, whether it was kept; false if there is too much."""
    parameters = {"worker_id": worker_id, "chunks": encode_rows(chunks), "most_bytes": LOG_BYTES}
    return dict(conn.execute(SQL["insert_logs_if_held"], parameters, prepare=True).fetchall())


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
