"""Queues and dead letters over HTTP."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.columns import ShownObject

FilterText = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class QueueStatus(ApiModel):
    queue: str
    waiting: int = Field(description="Tasks that a worker may take now")
    delayed: int = Field(description="Tasks that wait for their next attempt")
    running: int = Field(description="Tasks that workers hold")
    oldest_seconds: float | None = Field(description="How long the longest waiting task has waited")
    workers: int = Field(description="Workers alive that serve this queue")
    slots: int = Field(description="Tasks that they can run at a time")
    dead_letters: int = Field(description="Open ones")
    attention: str | None = Field(description="What needs an operator's attention, in one sentence")
    in_per_minute: float | None = Field(
        default=None, description="Tasks that came in, averaged over the last 5 minutes; only in `queues/status`"
    )
    out_per_minute: float | None = Field(
        default=None, description="Tasks that workers reported, averaged over the last 5 minutes"
    )
    drain_seconds: float | None = Field(
        default=None, description="Until it is empty at this pace; null if it does not get shorter"
    )


class QueueStatusList(ApiModel):
    queues: list[QueueStatus]


class DeadLetterSummary(ApiModel):
    dead_letter_id: str
    queue: str | None
    reason: str
    error_message: str | None
    job_id: str | None
    node_id: str | None
    task_id: str | None
    created_at: datetime
    settled_at: datetime | None
    settled_by: str | None
    settled_as: str | None = Field(description="requeued or discarded")


class DeadLetterPage(ApiModel):
    dead_letters: list[DeadLetterSummary]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


class DeadLetterDetail(DeadLetterSummary):
    worker_id: str | None = Field(description="Who held it last")
    lease_losses: int
    details: dict[str, Any]
    body: ShownObject | None
    raw: str | None = Field(description="The beginning of a message that could not be read")


class Requeued(ApiModel):
    dead_letter_id: str
    job_id: str
    is_new_job: bool = Field(description="True if its job had ended, and this is a rerun of it")


class NotRequeued(ApiModel):
    dead_letter_id: str
    reason: str


class RequeueRequest(ApiModel):
    """Which open dead letters; all of them without a filter."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queue: FilterText | None = None
    reason: FilterText | None = None
    job_id: FilterText | None = None
    limit: int = Field(default=100, ge=1, le=1000)


class RequeueOutcome(ApiModel):
    requeued: list[Requeued]
    refused: list[NotRequeued]
    complete: bool = Field(description="False if more may be left: ask again")


class Discarded(ApiModel):
    dead_letter_id: str
    settled_as: str
