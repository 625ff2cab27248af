"""Tasks as workers see them: claimed, started, reported, given back. The row is the lease."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.leases import ClaimedTask, ReturnedLease, TaskReport
from rmhdag.models.states import TaskStatus
from rmhdag.store.batch_rows import LeaseKey, TaskReportRow, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
# A small output travels in the inbox row too, which spares the owner a look at the result.
INBOX_OUTPUT_BYTES = 2_048
# In the inbox row of a result with records: it is settled in a transaction of its own.
PUBLISHES = "publishes"
# In the inbox row of a result with warnings: themselves if they are few, else True.
WARNED = "warnings"


class QueueDepth(NamedTuple):
    queue: str
    waiting: int
    delayed: int
    running: int
    oldest_waiting_at: Any


@commit_site
def claim_tasks(
    conn: Conn,
    worker_id: str,
    queue: str,
    limit: int,
    mark: int = 0,
    namespace: str | None = None,
    handlers: frozenset[str] | None = None,
    *,
    by_handler: bool = False,
    one_by_one: bool = False,
) -> list[ClaimedTask]:
    """Lease up to `limit` tasks, those whose turn it is first; of all namespaces or one, of all handlers or these.

    No namespace gets more than its quota of running tasks allows, unless the worker is its own.

    `by_handler` is for a queue in which many tasks of other handlers wait. Claims that are made `one_by_one` see each
    other: two at the same moment would both give a namespace the room that it has, and their tasks may run for a day.
    """
    parameters: dict[str, Any] = {
        "worker_id": worker_id,
        "queue": queue,
        "limit": limit,
        "mark": mark,
        "namespace": namespace,
        "handlers": as_keys(handlers),
    }
    query = "claim_tasks_by_handler" if by_handler else "claim_tasks"
    if not by_handler and not one_by_one:
        rows = conn.execute(SQL["claim_unwatched_tasks"], parameters, prepare=True).fetchall()
        if rows or namespace is not None or not has_watched_namespaces(conn):
            return sorted((ClaimedTask(*row) for row in rows), key=lambda task: task.order_key)
    if not one_by_one:
        return _claim(conn, query, parameters)
    with conn.transaction():
        # A statement of its own: the next one sees what the previous holder of the lock committed.
        conn.execute(SQL["lock_claims"], prepare=True)
        return _claim(conn, query, parameters)


def _claim(conn: Conn, query: str, parameters: dict[str, Any]) -> list[ClaimedTask]:
    limit = parameters["limit"]
    claimed: list[ClaimedTask] = []
    while rows := conn.execute(SQL[query], parameters, prepare=True).fetchall():
        lanes = rows[0][-2] or {}
        claimed += [ClaimedTask._make([*row[:-2], lanes.get(row[-3])]) for row in rows]
        parameters["limit"] = limit - len(claimed)
        # A namespace that has no more room stood before others: the next look passes it over.
        if rows[0][-1] == len(rows) or parameters["limit"] <= 0:
            break
    return sorted(claimed, key=lambda task: task.order_key)


def has_watched_namespaces(conn: Conn) -> bool:
    """Whether claims count the tasks of some namespace."""
    row = conn.execute(SQL["has_watched_namespaces"], prepare=True).fetchone()
    return row is not None and bool(row[0])


def full_namespaces(conn: Conn, worker_id: str, queue: str, namespace: str | None = None) -> list[str]:
    """Whose tasks of the queue this worker may not claim now; none, if it serves only one namespace."""
    parameters = {"worker_id": worker_id, "queue": queue, "limit": 1, "namespace": namespace}
    return [row[0] for row in conn.execute(SQL["full_namespaces"], parameters).fetchall()]


@lru_cache(maxsize=256)
def as_keys(handlers: frozenset[str] | None) -> str | None:
    """An object with these names, which is what the claims ask for; made once for a worker."""
    return None if handlers is None else orjson.dumps(dict.fromkeys(sorted(handlers), 0)).decode()


def other_handler_waits(conn: Conn, queue: str, handlers: frozenset[str]) -> bool:
    """Whether there is a task in the queue that a worker with these handlers cannot run."""
    row = conn.execute(
        SQL["other_handler_waits"], {"queue": queue, "handlers": as_keys(handlers)}, prepare=True
    ).fetchone()
    return row is not None and bool(row[0])


@commit_site
def report_tasks(conn: Conn, worker_id: str, reports: Sequence[TaskReport]) -> set[str]:
    """Record results, one statement for all; returns the tasks whose lease still matched."""
    rows = [_report_row(report, position) for position, report in enumerate(reports)]
    parameters = {"worker_id": worker_id, "reports": encode_rows(rows)}
    return _matched(conn.execute(SQL["report_tasks"], parameters, prepare=True))


def _report_row(report: TaskReport, position: int) -> TaskReportRow:
    """By position, because every task needs one (see orchestrator/batch.py); a test compares the order."""
    return TaskReportRow(
        report.task_id,
        report.lease_epoch,
        report.status,
        report.error_kind,
        report.error_message,
        report.duration_ms,
        None if report.output is None else orjson.Fragment(report.output),
        report.metrics,
        report.started_ms_ago,
        _told(report),
        position,
        None if report.records is None else orjson.Fragment(report.records),
        None if report.error is None else orjson.Fragment(report.error),
        None if report.warnings is None else orjson.Fragment(report.warnings),
    )


def _told(report: TaskReport) -> dict[str, Any]:
    payload: dict[str, Any] = {"ok": report.status is TaskStatus.COMPLETED, "ms": report.duration_ms}
    if report.error_kind is not None:
        payload["kind"] = report.error_kind
        payload["error"] = report.error_message
        if report.error is not None:
            payload["cause"] = orjson.Fragment(report.error)
    if report.output is not None and len(report.output) <= INBOX_OUTPUT_BYTES:
        payload["out"] = orjson.Fragment(report.output)
    if report.records is not None:
        payload[PUBLISHES] = True
    if report.warnings is not None:
        is_small = len(report.warnings) <= INBOX_OUTPUT_BYTES
        payload[WARNED] = orjson.Fragment(report.warnings) if is_small else True
    return payload


@commit_site
def start_tasks(conn: Conn, worker_id: str, tasks: Sequence[tuple[str, int]]) -> set[str]:
    """Mark the start of tasks that take long, or were lost before; returns those whose lease still matched."""
    parameters = {
        "worker_id": worker_id,
        "tasks": _encode_leases(tasks),
    }
    return _matched(conn.execute(SQL["start_tasks"], parameters, prepare=True))


@commit_site
def release_tasks(
    conn: Conn, worker_id: str, tasks: Sequence[ReturnedLease | tuple[str, int, float | None]]
) -> set[str]:
    """Give tasks back: with None one that never ran, else with the seconds until it is offered again.

    Returns those whose lease still matched; one that was to be cancelled is withdrawn instead.
    """
    parameters = {"worker_id": worker_id, "tasks": encode_rows(ReturnedLease(*lease) for lease in tasks)}
    row = conn.execute(SQL["release_tasks"], parameters, prepare=True).fetchone()
    assert row is not None
    return {*(row[0] or ()), *(row[1] or ())}


@commit_site
def report_lost_tasks(conn: Conn, workers: Sequence[str]) -> int:
    """Tell the owners of every task that a dead worker held; each lease is told once."""
    row = conn.execute(SQL["report_lost_tasks"], {"workers": list(workers)}).fetchone()
    assert row is not None
    return int(row[0])


def read_warnings(conn: Conn, task_id: str, lease_epoch: int) -> list[dict[str, Any]]:
    parameters = {"task_id": task_id, "lease_epoch": lease_epoch}
    row = conn.execute(SQL["read_warnings"], parameters, prepare=True).fetchone()
    return [] if row is None or row[0] is None else row[0]


def read_records(conn: Conn, task_id: str, lease_epoch: int) -> Any:
    """What was handed over with a result, or a reference to it."""
    parameters = {"task_id": task_id, "lease_epoch": lease_epoch}
    row = conn.execute(SQL["read_records"], parameters, prepare=True).fetchone()
    return None if row is None else row[0]


def current_leases(conn: Conn, task_ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """(lease epoch, whether it has started) of those tasks that are still queued or held."""
    rows = conn.execute(SQL["current_leases"], {"tasks": list(task_ids)}, prepare=True).fetchall()
    return {task_id: (lease_epoch, is_started) for task_id, lease_epoch, is_started in rows}


def queue_depths(conn: Conn) -> list[QueueDepth]:
    return [QueueDepth(*row) for row in conn.execute(SQL["depth"]).fetchall()]


def offer_due_tasks(conn: Conn) -> int:
    """Bring delayed tasks that are due into the order of their queue."""
    return conn.execute(SQL["offer_due_tasks"], prepare=True).rowcount


def recorded_leases(conn: Conn, worker_id: str, tasks: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those that this worker has reported before."""
    parameters = {
        "worker_id": worker_id,
        "tasks": _encode_leases(tasks),
    }
    return {(row[0], row[1]) for row in conn.execute(SQL["recorded_leases"], parameters).fetchall()}


def count_held(conn: Conn, worker_id: str) -> int:
    row = conn.execute(SQL["count_held"], {"worker_id": worker_id}, prepare=True).fetchone()
    return 0 if row is None else int(row[0])


def waiting_namespaces(conn: Conn, queues: Sequence[str], limit: int = 1_000) -> set[tuple[str, str | None]]:
    """(queue, namespace) of tasks that wait; (queue, None) if so many wait that anybody's may be among them."""
    rows = conn.execute(SQL["waiting_namespaces"], {"queues": list(queues), "limit": limit}, prepare=True).fetchall()
    return {(queue, namespace) for queue, namespace in rows}


def first_waiting(conn: Conn, queue: str, after: int) -> int | None:
    """The smallest order key from this one on that waits in the queue."""
    row = conn.execute(SQL["first_waiting"], {"queue": queue, "after": after}, prepare=True).fetchone()
    return None if row is None else row[0]


def dead_queue_rows(conn: Conn) -> int:
    """Roughly how many rows of tasks that are gone still stand in the queue's table."""
    row = conn.execute(SQL["dead_queue_rows"], prepare=True).fetchone()
    return 0 if row is None else row[0]


def _encode_leases(pairs: Sequence[tuple[str, int]]) -> str:
    return encode_rows(LeaseKey(task_id, lease_epoch) for task_id, lease_epoch in pairs)


def _matched(cursor: psycopg.Cursor[Any]) -> set[str]:
    row = cursor.fetchone()
    assert row is not None
    return set(row[0] or ())
