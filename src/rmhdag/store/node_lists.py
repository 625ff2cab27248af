"""Lists of nodes: of one job, of one fan-out, and across jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg.rows import class_row

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


class NodeRow(NamedTuple):
    """`children_total` is the number of a fan-out's children, known once it has begun."""

    job_id: str
    node_id: str
    status: str
    attempt: int
    retry_count: int
    max_retries: int
    lease_losses: int
    task_id: str | None
    reused_task_id: str | None
    parent_node_id: str | None
    fan_out_index: int | None
    fan_out_item_key: str | None
    next_attempt_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    ready_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    checkpoint_phase: str | None
    error_message: str | None
    error: dict[str, Any] | None
    children_total: int | None
    duration_seconds: float | None


class JobHead(NamedTuple):
    job_id: str
    created_at: datetime
    workflow_id: str
    workflow_version: int
    workflow_hash: str


def nodes_of_definition(
    conn: Conn, job_id: str, node_ids: Collection[str], *, after: str, statuses: Collection[str], limit: int
) -> list[NodeRow]:
    """By node id, behind `after`."""
    given = {"job_id": job_id, "nodes": list(node_ids), "after": after, "statuses": labels(statuses), "limit": limit}
    return _read(conn, "nodes_of_definition", given)


def all_nodes(conn: Conn, job_id: str, *, after: str, statuses: Collection[str], limit: int) -> list[NodeRow]:
    """Children of fan-outs too; by node id, behind `after`."""
    return _read(conn, "all_nodes", {"job_id": job_id, "after": after, "statuses": labels(statuses), "limit": limit})


def children(
    conn: Conn, job_id: str, parent: str, *, after: int, statuses: Collection[str], limit: int
) -> list[NodeRow]:
    """By their index, behind `after`."""
    given = {"job_id": job_id, "parent": parent, "after": after, "statuses": labels(statuses), "limit": limit}
    return _read(conn, "children", given)


def nodes_by_name(conn: Conn, wanted: Sequence[tuple[str, str]], statuses: Collection[str]) -> list[NodeRow]:
    """`wanted` are pairs of job and node; in no order."""
    if not wanted:
        return []
    return _read(conn, "nodes_by_name", {"wanted": orjson.dumps(wanted).decode(), "statuses": labels(statuses)})


def newest_jobs(
    conn: Conn, namespace: str, *, only_open: bool, until: tuple[datetime, str] | None, limit: int
) -> list[JobHead]:
    """Newest first, from `until` on, which is among them."""
    until_at, until_id = until or (END_OF_TIME, "")
    given = {"namespace": namespace, "until_at": until_at, "until_id": until_id, "limit": limit}
    with conn.cursor(row_factory=class_row(JobHead)) as cursor:
        return cursor.execute(SQL["newest_open_jobs" if only_open else "newest_jobs"], given).fetchall()


def labels(given: Collection[str]) -> str | None:
    """Labels of an enum as PostgreSQL writes an array; None if there are none."""
    return "{" + ",".join(given) + "}" if given else None


def _read(conn: Conn, query: str, given: dict[str, Any]) -> list[NodeRow]:
    with conn.cursor(row_factory=class_row(NodeRow)) as cursor:
        return cursor.execute(SQL[query], given).fetchall()
