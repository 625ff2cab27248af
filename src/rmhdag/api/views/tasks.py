"""Tasks across jobs: what stands in queues and what was reported, in one order, newest jobs first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg

from rmhdag.api.views.nodes import NodeKinds
from rmhdag.api.views.pictures import read_definition
from rmhdag.models.api.tasks import IN_FLIGHT, TaskState, TaskSummary
from rmhdag.models.states import TaskStatus
from rmhdag.orchestrator.registrations import handler_queues
from rmhdag.store.task_lists import QueuedTask, ReportedTask, TaskPlace, queued_tasks, reported_tasks

Conn = psycopg.Connection[Any]
# So many rows of each kind are looked at, so many times at most.
ROWS_PER_LOOK = 500
MOST_LOOKS = 6


def list_tasks(
    conn: Conn,
    namespace: str,
    *,
    statuses: Collection[TaskState] = (),
    handler: str | None = None,
    queue: str | None = None,
    job_id: str | None = None,
    before: TaskPlace | None = None,
    limit: int = 50,
) -> tuple[list[TaskSummary], TaskPlace | None]:
    """A page, and where to go on if there may be more: a look finds what it finds, and has an end."""
    found: list[TaskSummary] = []
    queues = handler_queues(conn, namespace)
    for _ in range(MOST_LOOKS):
        queued = queued_tasks(conn, before, job_id, ROWS_PER_LOOK) if not statuses or set(statuses) & IN_FLIGHT else []
        reported = (
            reported_tasks(conn, before, job_id, ROWS_PER_LOOK) if not statuses or set(statuses) - IN_FLIGHT else []
        )
        # Beyond the end of a look that was cut, the other kind's rows are not next.
        ends = [_place(rows[-1]) for rows in (queued, reported) if len(rows) == ROWS_PER_LOOK]
        end = max(ends, default=None)
        both: list[QueuedTask | ReportedTask] = [*queued, *reported]
        rows = [
            row
            for row in both
            if row.namespace == namespace and (end is None or _place(row) >= end) and not _is_shadow(row)
        ]
        for row in sorted(rows, key=_place, reverse=True):
            task = _summary(conn, row, queues)
            if _is_meant(task, statuses, handler, queue):
                found.append(task)
                if len(found) == limit:
                    return found, _place(row)
        if end is None:
            return found, None
        before = end
    return found, before


def _place(row: QueuedTask | ReportedTask) -> TaskPlace:
    return TaskPlace(row.task_id, row.lease_epoch)


def _is_shadow(row: QueuedTask | ReportedTask) -> bool:
    """The progress of a task that still stands in its queue."""
    return isinstance(row, ReportedTask) and row.status == TaskStatus.RUNNING


def _is_meant(task: TaskSummary, statuses: Collection[TaskState], handler: str | None, queue: str | None) -> bool:
    return (
        (not statuses or task.status in statuses)
        and (handler is None or task.handler == handler)
        and (queue is None or task.queue == queue)
    )


def _summary(conn: Conn, row: QueuedTask | ReportedTask, queues: dict[str, str]) -> TaskSummary:
    known = {name: value for name, value in row._asdict().items() if name in TaskSummary.model_fields}
    if isinstance(row, QueuedTask):
        return TaskSummary.model_validate({**known, "status": _state(row)})
    handler, queue = _task_of(conn, row, queues)
    known |= {"handler": handler, "queue": queue, "duration_ms": row.execution_duration_ms}
    return TaskSummary.model_validate(known)


def _state(row: QueuedTask) -> TaskState:
    if row.worker_id is not None:
        return TaskState.RECEIVED if row.started_at is None else TaskState.RUNNING
    return TaskState.WAITING if row.available_at is None else TaskState.DELAYED


def _task_of(conn: Conn, row: ReportedTask, queues: dict[str, str]) -> tuple[str | None, str | None]:
    if row.workflow_id is None:
        return None, None
    return NodeKinds(read_definition(conn, row._asdict()), queues).task_of(row.node_id)
