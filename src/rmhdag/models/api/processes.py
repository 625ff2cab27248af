"""Workers, orchestrators and the handlers of workers, over HTTP."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.tasks import TaskSummary
from rmhdag.models.limits import BODY_BYTES


class WorkerSummary(ApiModel):
    worker_id: str
    host: str
    process_id: int
    version: str
    alive: bool = Field(description="Heard within the time after which silence counts as death")
    draining: bool = Field(description="Takes no new tasks")
    slots: int = Field(description="Tasks that it can run at a time")
    tasks_held: int
    queues: list[str]
    started_at: datetime
    heartbeat_at: datetime
    silent_seconds: float
    stats: dict[str, Any]


class WorkerList(ApiModel):
    workers: list[WorkerSummary]
    tasks: list[TaskSummary] | None = Field(
        default=None, description="What they run of the namespace, the first 200: only if asked for"
    )


class OrchestratorSummary(ApiModel):
    owner_id: str
    host: str
    process_id: int
    version: str
    alive: bool = Field(description="Heard within the time after which silence counts as death")
    stopping: bool
    jobs_owned: int
    started_at: datetime
    heartbeat_at: datetime
    silent_seconds: float
    stats: dict[str, Any]


class OrchestratorList(ApiModel):
    orchestrators: list[OrchestratorSummary]


class DrainAnswer(ApiModel):
    """The process learns of it with its next heartbeat, and ends when it has finished or released its work."""

    process: str = Field(description="The id of the worker or orchestrator")
    draining: bool


class HandlerSummary(ApiModel):
    handler: str
    aliases: list[str]
    queue: str | None = Field(description="Its own, used where no node names one")
    offered: bool = Field(description="Some worker has registered it; else it is only known to exist")
    version: str | None
    description: str | None
    params_schema: dict[str, Any] | None = Field(
        description="JSON Schema of its parameters; an empty one says nothing, null is not known here"
    )
    output_schema: dict[str, Any] | None = Field(
        default=None, description="JSON Schema of its output; empty if the handler declares none"
    )


class HandlerList(ApiModel):
    handlers: list[HandlerSummary]


class HandlerTrialRequest(ApiModel):
    """One handler to run once."""

    max_body_bytes: ClassVar[int] = BODY_BYTES

    handler: str = Field(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: int = Field(default=30, ge=1, le=60, strict=True)
    queue: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Where it runs; else the handler's own queue, else the only one that there is",
    )

    model_config = ConfigDict(extra="forbid")


class HandlerTrial(ApiModel):
    """What became of it."""

    job_id: str
    handler: str
    status: str = Field(description="completed, failed, cancelled, or timed_out")
    output: Any
    error_kind: str | None
    error_message: str | None
    error: ErrorView | None = None
    warnings: list[WarningView] = Field(default_factory=list)
    duration_ms: int | None = Field(description="Of the handler alone")
    worker_id: str | None
    logs: str = Field(description="The last 64 KB")
