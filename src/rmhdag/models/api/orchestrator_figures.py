"""Figures of orchestrators, and recently ended jobs."""

from datetime import datetime
from typing import Any

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.events import EventStatus, EventType


class OrchestratorStatus(ApiModel):
    owner_id: str
    host: str
    process_id: int
    version: str
    alive: bool = Field(description="Its heartbeat is younger than the threshold of the settings")
    stopping: bool
    started_at: datetime
    uptime_seconds: float
    last_heartbeat_at: datetime
    phase: str = Field(description="idle, inbox, deciding or writing, at its last heartbeat")
    jobs_owned: int
    backlog: int | None = Field(description="Inputs that it had read and not handled yet; with the scope `platform`")
    errors: int | None = Field(description="With the scope `platform` only")
    last_error: str | None = Field(description="With the scope `platform` only")
    last_orphan_scan_at: datetime | None


class OrchestratorStatusList(ApiModel):
    orchestrators: list[OrchestratorStatus]


class OrchestratorStats(ApiModel):
    """Counted since it started. What is null counts for all namespaces together, and needs the scope `platform`."""

    owner_id: str
    uptime_seconds: float
    cycles: int = Field(description="Turns of its loop that found something to do")
    cycle_ms_avg: float | None = Field(description="Of the last 1,000 cycles")
    cycle_ms_p99: float | None
    jobs_owned: int
    jobs_claimed: int | None
    jobs_reclaimed: int | None
    jobs_ended: int | None
    tasks_dispatched: int | None
    results_processed: int | None
    backlog: int | None
    errors: int | None = Field(description="With the scope `platform` only")
    last_error: str | None = Field(description="With the scope `platform` only")
    last_heartbeat_at: datetime
    last_orphan_scan_at: datetime | None


class OrchestratorStatsList(ApiModel):
    orchestrators: list[OrchestratorStats]


class EndedJob(ApiModel):
    job_id: str
    workflow_id: str
    completed_at: datetime
    duration_seconds: float | None
    error_message: str | None = None


class FailingHandler(ApiModel):
    handler: str
    queue: str | None = Field(description="As the workflow names it; null where the handler's own is used")
    failures: int
    last_error: str | None
    last_failed_at: datetime


class FailingQueue(ApiModel):
    queue: str
    failures: int


class OrchestratorEvent(ApiModel):
    owner_id: str
    timestamp: datetime
    event_type: EventType
    status: EventStatus
    message: str
    data: dict[str, Any]


class Takeover(ApiModel):
    """Work that was taken from a process that did not answer any more: a job, or a task of one."""

    job_id: str
    node_id: str | None = Field(description="Null if the whole job was taken over by another orchestrator")
    timestamp: datetime
    message: str
    taken_from: str | None = Field(description="The orchestrator or worker that had it")
    taken_by: str | None = Field(description="The orchestrator that has it now; null for tasks, which any worker takes")


class OrchestratorActivity(ApiModel):
    """Jobs and failures are those of the caller's namespace; events those of the orchestrators that are shown."""

    completions: list[EndedJob] = Field(description="The last 100")
    failures: list[EndedJob] = Field(description="The last 100")
    failing_handlers: list[FailingHandler] = Field(description="Of failed attempts within the last hour")
    failing_queues: list[FailingQueue]
    events: list[OrchestratorEvent] = Field(description="The last 100, newest first")
    takeovers: list[Takeover] = Field(description="Among the newest 20,000 events of jobs, at most 50, newest first")
