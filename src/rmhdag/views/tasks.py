"""Tasks across jobs: queued and reported ones in one order, newest jobs first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from rmhdag.models.api.tasks import IN_FLIGHT, TaskState, TaskSummary
from rmhdag.services.plans import QueueOf
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.views.jobs import queues_of
from rmhdag.views.nodes import NodeKinds
from rmhdag.views.pictures import read_definition

SQL = load_queries(__file__)
# So many rows of each kind are looked at, so many times at most.
ROWS_PER_LOOK = 500
MOST_LOOKS = 6
# Behind every id: they are hexadecimal.
LAST = "g"


class TaskPlace(NamedTuple):
    task_id: str
    lease_epoch: int


class TaskRow(TaskSummary):
    """A task as it is read. One that was reported names its workflow, unless its job is gone; `is_shadow` is the
    progress of a task that still stands in its queue.
    """

    namespace: str
    workflow_id: str | None = None
    workflow_version: int = 0
    workflow_hash: str = ""
    is_shadow: bool = False

    @property
    def place(self) -> TaskPlace:
        return TaskPlace(self.task_id, self.lease_epoch)


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
    page: list[TaskSummary] = []
    queue_of = queues_of(conn, namespace)
    for _ in range(MOST_LOOKS):
        parameters = _range(before, job_id)
        queued, reported = [
            read_all(conn, TaskRow, SQL[query], parameters) if is_asked_for else []
            for query, is_asked_for in (
                ("queued_tasks", not statuses or set(statuses) & IN_FLIGHT),
                ("reported_tasks", not statuses or set(statuses) - IN_FLIGHT),
            )
        ]
        # Beyond the end of a look that was cut, the other kind's rows are not next.
        end = max((rows[-1].place for rows in (queued, reported) if len(rows) == ROWS_PER_LOOK), default=None)
        tasks = [
            task
            for task in (*queued, *reported)
            if task.namespace == namespace and (end is None or task.place >= end) and not task.is_shadow
        ]
        for task in sorted(tasks, key=lambda task: task.place, reverse=True):
            if task.workflow_id is not None:
                task.handler, task.queue = _task_of(conn, task, task.workflow_id, queue_of)
            if _is_meant(task, statuses, handler, queue):
                page.append(task)
                if len(page) == limit:
                    return page, task.place
        if end is None:
            return page, None
        before = end
    return page, before


def _range(before: TaskPlace | None, job_id: str | None) -> dict[str, Any]:
    """A job's tasks are one range: its id and a dash."""
    last = TaskPlace(LAST if job_id is None else f"{job_id}.", 0)
    place = last if before is None else min(before, last)
    first = "" if job_id is None else f"{job_id}-"
    return {"before_id": place.task_id, "before_epoch": place.lease_epoch, "from_id": first, "limit": ROWS_PER_LOOK}


def _is_meant(task: TaskSummary, statuses: Collection[TaskState], handler: str | None, queue: str | None) -> bool:
    return (
        (not statuses or task.status in statuses)
        and (handler is None or task.handler == handler)
        and (queue is None or task.queue == queue)
    )


def _task_of(conn: Conn, task: TaskRow, workflow_id: str, queue_of: QueueOf) -> tuple[str | None, str | None]:
    key = (task.namespace, workflow_id, task.workflow_version, task.workflow_hash)
    return NodeKinds(read_definition(conn, key), queue_of).task_of(task.node_id)
