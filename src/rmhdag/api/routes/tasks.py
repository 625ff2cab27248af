"""Tasks across jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.routes.jobs import plain
from rmhdag.api.routes.nodes import number
from rmhdag.models.api.tasks import TaskPage, TaskState
from rmhdag.models.columns import Id, Name
from rmhdag.views.tasks import TaskPlace, list_tasks

router = APIRouter(prefix="/api/v1", tags=["tasks"])


@router.get("/tasks")
def get_tasks(
    caller: Reader,
    api: ApiContext,
    status: Annotated[list[TaskState] | None, Query(max_length=20, description="One or several")] = None,
    handler: Annotated[Name | None, Query()] = None,
    queue: Annotated[Name | None, Query()] = None,
    job_id: Annotated[Id | None, Query()] = None,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> TaskPage:
    """Queued and reported tasks, those of the newest jobs first."""
    before = read_cursor(cursor, task_place)
    with api.connection() as conn:
        lines, place = list_tasks(
            conn,
            caller.namespace,
            statuses=status or (),
            handler=handler,
            queue=queue,
            job_id=job_id,
            before=before,
            limit=limit,
        )
    return TaskPage(tasks=lines, next_cursor=None if place is None else write_cursor(*place))


def task_place(task_id: Any, lease_epoch: Any) -> TaskPlace:
    return TaskPlace(plain(task_id), number(lease_epoch))
