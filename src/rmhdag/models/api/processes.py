"""Who is there, over HTTP: workers, orchestrators, and the handlers that workers offer."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from rmhdag.models.api.data_errors import ErrorView, WarningView


class WorkerSummary(BaseModel):
    worker_id: str
    host: str
    process_id: int
    version: str
    alive: bool = Field(description="Heard within the time after which silence counts as death")
    draining: bool = Field(description="Takes no new tasks")
    slots: int = Field(description="Tasks that it can run at once")
    tasks_held: int
    queues: list[str]
    started_at: datetime
    heartbeat_at: datetime
    silent_seconds: float
    stats: dict[str, Any]


class WorkerList(BaseModel):
    workers: list[WorkerSummary]


class OrchestratorSummary(BaseModel):
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


class OrchestratorList(BaseModel):
    orchestrators: list[OrchestratorSummary]


class DrainAnswer(BaseModel):
    """It hears so with its next heartbeat, and ends when it has finished or given back what it has."""

    process: str = Field(description="The id of the worker or orchestrator")
    draining: bool


class HandlerSummary(BaseModel):
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


class HandlerList(BaseModel):
    handlers: list[HandlerSummary]


class HandlerTrialRequest(BaseModel):
    """One handler to run once."""

    handler: str = Field(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: int = Field(default=30, ge=1, le=60, strict=True)
    queue: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Where it runs; else the handler's own queue, else the only one that there is",
    )

    model_config = {"extra": "forbid"}


class HandlerTrial(BaseModel):
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
