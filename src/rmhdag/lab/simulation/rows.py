"""The rows of the model store: of each table only the columns that ownership, leases and inputs are about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rmhdag.engine.effects import CommandAnswered, Effect
from rmhdag.engine.inputs import Input, Start
from rmhdag.models.states import JobEnding, JobStatus, NodeStatus


@dataclass(slots=True, frozen=True)
class Guards:
    """What keeps the store whole. The mutation test takes away one at a time and expects to be found out."""

    owner_fence: bool = True  # a commit writes only jobs whose owner and epoch are the caller's
    lease_epoch: bool = True  # a worker is heard only about the lease that it holds
    duplicate_report: bool = True  # a result is recorded only by the report that deletes the queue row
    duplicate_commit: bool = True  # a batch that was committed is not written again
    duplicate_input: bool = True  # an inbox row is consumed by one commit only
    waiting_result: bool = True  # a deadline is void once its task was reported, when it is due and when it is written
    torn_alone: bool = True  # a job whose input is gone drops out alone, and the others of its batch are written
    gives_back: bool = True  # a job that drops out of a batch is given again what it was owed


@dataclass(slots=True)
class JobRow:
    job_id: str
    workflow_id: str
    input_params: dict[str, Any]
    idempotency_key: str | None = None
    status: JobStatus = JobStatus.PENDING
    ending: JobEnding | None = None
    error_message: str | None = None
    result: dict[str, Any] | None = None
    owner_id: str = ""  # '' is a job that nobody owns
    owner_epoch: int = 0
    version: int = 0
    parent_job_id: str | None = None
    parent_node_id: str | None = None
    parent_attempt: int = 0
    depth: int = 0
    started_at: datetime | None = None
    rerun: Start = field(default_factory=Start)  # what a rerun takes over
    warnings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class NodeRow:
    node_id: str
    max_retries: int
    status: NodeStatus = NodeStatus.PENDING
    attempt: int = 1
    lease_losses: int = 0
    task_id: str | None = None
    reused_task_id: str | None = None
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    parent_node_id: str | None = None
    fan_out_index: int | None = None
    input_params: dict[str, Any] | None = None
    output: Any = None
    error_message: str | None = None
    checkpoint_phase: str | None = None


@dataclass(slots=True)
class QueueRow:
    """The one row of an attempt in flight. `lost`: its worker is gone and the owner has not requeued it yet."""

    task_id: str
    job_id: str
    node_id: str
    attempt: int
    queue: str
    timeout_seconds: int
    params: dict[str, Any]
    lease_epoch: int = 0
    lease_losses: int = 0
    worker_id: str | None = None
    started_at: datetime | None = None
    cancel_requested: bool = False
    lost: bool = False
    available_at: datetime | None = None

    @property
    def started(self) -> bool:
        return self.started_at is not None

    def is_claimable(self, now: datetime) -> bool:
        is_due = self.available_at is None or self.available_at <= now
        return self.worker_id is None and is_due and not self.lost and not self.cancel_requested


@dataclass(slots=True)
class ResultRow:
    task_id: str
    lease_epoch: int
    job_id: str
    node_id: str
    attempt: int
    success: bool
    output: Any = None
    is_large: bool = False  # stored as a payload; inputs carry a reference
    error_kind: Any = None
    records: tuple[Any, ...] = ()
    warnings: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class InboxRow:
    inbox_id: int
    owner_id: str
    job_id: str
    given: Input
    task_id: str | None
    visible_at: datetime  # ids are drawn before the commit, so a smaller one may become visible later
    command_id: str | None = None


@dataclass(slots=True)
class CommandRow:
    command_id: str
    job_id: str
    given: Input
    applied: bool | None = None


@dataclass(slots=True)
class EventRow:
    seq: int
    event_type: str
    node_id: str | None
    task_id: str | None


@dataclass(slots=True)
class JobWrite:
    """One job's share of a batch: what was consumed, what the engine wants, and what the writer believes of the row."""

    job_id: str
    owner_epoch: int
    version: int
    consumed: list[int]
    effects: list[Effect]
    answers: list[tuple[str, CommandAnswered]]


@dataclass(slots=True, frozen=True)
class Claimed:
    """Audit: a job got another owner, or none."""

    job_id: str
    owner_id: str
    owner_epoch: int


@dataclass(slots=True, frozen=True)
class Committed:
    """Audit: a job was written."""

    owner_id: str
    write: JobWrite


@dataclass(slots=True, frozen=True)
class Leased:
    """Audit: a lease epoch was minted."""

    task_id: str
    lease_epoch: int


@dataclass(slots=True, frozen=True)
class Heard:
    """Audit: a worker was heard about its lease."""

    task_id: str
    lease_epoch: int


@dataclass(slots=True, frozen=True)
class Recorded:
    """Audit: a report was accepted as the result of its task."""

    result: ResultRow


AuditEntry = Claimed | Committed | Leased | Heard | Recorded
