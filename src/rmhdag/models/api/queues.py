"""Queues and dead letters over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from rmhdag.models.columns import ShownObject

FilterText = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class QueueStatus(BaseModel):
    queue: str
    waiting: int = Field(description="Tasks that a worker may take now")
    delayed: int = Field(description="Tasks that wait for their next attempt")
    running: int = Field(description="Tasks that workers hold")
    oldest_seconds: float | None = Field(description="How long the longest waiting task has waited")
    workers: int = Field(description="Workers alive that serve this queue")
    slots: int = Field(description="Tasks that they can run at once")
    dead_letters: int = Field(description="Open ones")
    attention: str | None = Field(description="What needs somebody, in one sentence")


class QueueStatusList(BaseModel):
    queues: list[QueueStatus]


class DeadLetterSummary(BaseModel):
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


class DeadLetterPage(BaseModel):
    dead_letters: list[DeadLetterSummary]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


class DeadLetterDetail(DeadLetterSummary):
    worker_id: str | None = Field(description="Who held it last")
    lease_losses: int
    details: dict[str, Any]
    body: ShownObject | None
    raw: str | None = Field(description="The beginning of a message that could not be read")


class Requeued(BaseModel):
    dead_letter_id: str
    job_id: str
    is_new_job: bool = Field(description="True if its job had ended, and this is a rerun of it")


class NotRequeued(BaseModel):
    dead_letter_id: str
    reason: str


class RequeueRequest(BaseModel):
    """Which open dead letters; all of them, if nothing is given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queue: FilterText | None = None
    reason: FilterText | None = None
    job_id: FilterText | None = None
    limit: int = Field(default=100, ge=1, le=1000)


class RequeueOutcome(BaseModel):
    requeued: list[Requeued]
    refused: list[NotRequeued]
    complete: bool = Field(description="False if more may be left: ask again")


class Discarded(BaseModel):
    dead_letter_id: str
    settled_as: str
