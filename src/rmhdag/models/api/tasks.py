"""Tasks across jobs: queued tasks, and reports of finished ones."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.events import ErrorKind


class TaskState(StrEnum):
    """`waiting` and `delayed` stand in a queue; `received` and later is as the worker has it."""

    WAITING = "waiting"
    DELAYED = "delayed"
    RECEIVED = "received"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    LOST = "lost"
    STALE = "stale"
    CANCELLED = "cancelled"


IN_FLIGHT = frozenset({TaskState.WAITING, TaskState.DELAYED, TaskState.RECEIVED, TaskState.RUNNING})


class TaskSummary(ApiModel):
    """One lease of a task. `lease_epoch` is 0 before the first claim."""

    task_id: str
    lease_epoch: int
    job_id: str
    node_id: str
    status: TaskState
    handler: str | None = None
    queue: str | None = None
    attempt: int
    lease_losses: int = 0
    priority: int | None = None
    worker_id: str | None = None
    created_at: datetime | None = None
    available_at: datetime | None = Field(default=None, description="Of a delayed one: when it is offered again")
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    reported_at: datetime | None = None
    duration_ms: int | None = None
    progress_percent: float | None = None
    progress_message: str | None = None
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    error: ErrorView | None = None
    warnings: list[WarningView] = Field(default_factory=list)


class TaskPage(ApiModel):
    """Those of the newest jobs first."""

    tasks: list[TaskSummary]
    next_cursor: str | None = Field(
        default=None, description="`cursor` of the next page; a page may be short, even empty, and not be the last"
    )
