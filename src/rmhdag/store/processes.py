"""The processes that are alive: one heartbeat row each, by the database's clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.leases import BeatAnswer
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


def register_orchestrator(conn: Conn, owner_id: str, host: str, process_id: int, version: str) -> None:
    parameters = {"owner_id": owner_id, "host": host, "process_id": process_id, "version": version}
    conn.execute(SQL["register_orchestrator"], parameters)


def beat_orchestrator(conn: Conn, owner_id: str, stats: dict[str, Any]) -> BeatAnswer:
    parameters = {"owner_id": owner_id, "stats": orjson.dumps(stats).decode()}
    return beat_answer(conn.execute(SQL["beat_orchestrator"], parameters, prepare=True).fetchone())


def beat_answer(row: tuple[bool] | None) -> BeatAnswer:
    """Of the row that was beaten on; it is gone if somebody has taken us for dead."""
    if row is None:
        return BeatAnswer.GONE
    return BeatAnswer.DRAIN if row[0] else BeatAnswer.GO_ON


def drain_worker(conn: Conn, worker_id: str, *, namespace: str, actor: str, among: str | None = None) -> bool:
    """Ask it to finish and end; it hears so with its next heartbeat. False if there is no such worker.

    `among`: only one that serves this namespace alone; any other counts as not there.
    """
    parameters = {"worker_id": worker_id, "namespace": namespace, "actor": actor, "among": among}
    return conn.execute(SQL["drain_worker"], parameters).rowcount == 1


def drain_orchestrator(conn: Conn, owner_id: str, *, namespace: str, actor: str) -> bool:
    """Ask it to hand its jobs over and end. False if there is no such orchestrator."""
    parameters = {"owner_id": owner_id, "namespace": namespace, "actor": actor}
    return conn.execute(SQL["drain_orchestrator"], parameters).rowcount == 1


def remove_orchestrators(conn: Conn, owners: Sequence[str]) -> None:
    conn.execute(SQL["remove_orchestrators"], {"owners": list(owners)})


def remove_workers(conn: Conn, workers: Sequence[str]) -> None:
    conn.execute(SQL["remove_workers"], {"workers": list(workers)})


def orchestrator_heartbeats(conn: Conn) -> dict[str, str]:
    """The last heartbeat of each, as text: it is only compared with itself, never with a clock."""
    return dict(conn.execute(SQL["orchestrator_heartbeats"]).fetchall())


def worker_heartbeats(conn: Conn) -> dict[str, str]:
    return dict(conn.execute(SQL["worker_heartbeats"]).fetchall())


def registered_process_ids(conn: Conn) -> set[int]:
    """Of orchestrators and workers that said in the database that they are there."""
    return {row[0] for row in conn.execute(SQL["registered_process_ids"]).fetchall()}


def owners_without_heartbeat(conn: Conn) -> list[str]:
    return [row[0] for row in conn.execute(SQL["owners_without_heartbeat"]).fetchall()]


def workers_without_heartbeat(conn: Conn) -> list[str]:
    return [row[0] for row in conn.execute(SQL["workers_without_heartbeat"]).fetchall()]


def count_live_jobs(conn: Conn, owners: Sequence[str]) -> int:
    return sum(count for _, count in conn.execute(SQL["count_live_jobs"], {"owners": list(owners)}).fetchall())


def record_orchestrator_event(
    conn: Conn,
    owner_id: str,
    event_type: EventType,
    event_status: EventStatus,
    data: dict[str, Any],
    error_message: str | None = None,
) -> None:
    parameters = {
        "owner_id": owner_id,
        "event_type": event_type,
        "event_status": event_status,
        "error_message": error_message,
        "event_data": orjson.dumps(data, default=str).decode(),
    }
    conn.execute(SQL["insert_orchestrator_event"], parameters)
