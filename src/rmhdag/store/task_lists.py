"""Looks at tasks, newest jobs first: rows of the queues, and what was reported. Each look has a bounded length."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
# Behind every id: they are hexadecimal.
LAST = "g"


class TaskPlace(NamedTuple):
    task_id: str
    lease_epoch: int


class QueuedTask(NamedTuple):
    task_id: str
    lease_epoch: int
    namespace: str
    job_id: str
    node_id: str
    handler: str
    queue: str
    attempt: int
    lease_losses: int
    priority: int
    worker_id: str | None
    created_at: datetime
    available_at: datetime | None
    claimed_at: datetime | None
    started_at: datetime | None
    progress_percent: float | None
    progress_message: str | None


class ReportedTask(NamedTuple):
    """The workflow is None if the job is gone."""

    task_id: str
    lease_epoch: int
    namespace: str
    job_id: str
    node_id: str
    attempt: int
    status: str
    worker_id: str | None
    started_at: datetime | None
    reported_at: datetime
    execution_duration_ms: int | None
    progress_percent: float | None
    progress_message: str | None
    error_kind: str | None
    error_message: str | None
    error: dict[str, Any] | None
    warnings: list[dict[str, Any]]
    workflow_id: str | None
    workflow_version: int | None
    workflow_hash: str | None


def queued_tasks(conn: Conn, before: TaskPlace | None, job_id: str | None, limit: int) -> list[QueuedTask]:
    with conn.cursor(row_factory=class_row(QueuedTask)) as cursor:
        return cursor.execute(SQL["queued_tasks"], _range(before, job_id, limit)).fetchall()


def reported_tasks(conn: Conn, before: TaskPlace | None, job_id: str | None, limit: int) -> list[ReportedTask]:
    with conn.cursor(row_factory=class_row(ReportedTask)) as cursor:
        return cursor.execute(SQL["reported_tasks"], _range(before, job_id, limit)).fetchall()


def _range(before: TaskPlace | None, job_id: str | None, limit: int) -> dict[str, Any]:
    """A job's tasks are one range: its id and a dash."""
    last = TaskPlace(LAST if job_id is None else f"{job_id}.", 0)
    place = last if before is None else min(before, last)
    first = "" if job_id is None else f"{job_id}-"
    return {"before_id": place.task_id, "before_epoch": place.lease_epoch, "from_id": first, "limit": limit}
