"""Everything that can happen to a job. One row of the inbox, one due timer or one command becomes one input.

Inputs about a task carry its attempt: an input of another attempt than the current one is late and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rmhdag.models.events import ErrorKind
from rmhdag.models.references import Reference
from rmhdag.models.states import JobStatus, NodeStatus

Path = tuple[str | int, ...]


@dataclass(slots=True)
class Output:
    """What a node produced: the value itself, or a reference with the excerpts that expressions will read.

    `excerpts` is used only with a reference; the reader of the result cuts them out by `Plan.read_paths`.
    """

    value: Any = None
    reference: Reference | None = None
    excerpts: Mapping[Path, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ReusedNode:
    """A node of the rerun job whose outcome the new job reuses."""

    status: NodeStatus
    task_id: str | None = None
    output: Output | None = None


@dataclass(slots=True)
class Start:
    """The job has an owner and may begin. A rerun carries the outcomes that it reuses."""

    reused: Mapping[str, ReusedNode] = field(default_factory=dict)
    # fan-out → child index → task that produced the child's output
    reused_children: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    warnings: Sequence[Mapping[str, Any]] = ()  # of all reused nodes


@dataclass(slots=True)
class TaskStarted:
    node_id: str
    attempt: int
    task_id: str
    lease_epoch: int
    worker_id: str


@dataclass(slots=True)
class TaskReported:
    """The one accepted report of an attempt."""

    node_id: str
    attempt: int
    task_id: str
    lease_epoch: int
    success: bool
    output: Output | None = None
    error_message: str | None = None
    error_kind: ErrorKind | None = None
    worker_id: str | None = None
    duration_ms: int | None = None
    records: tuple[Any, ...] = ()
    error: dict[str, Any] | None = None
    warnings: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True)
class TaskSnoozed:
    """The task was released and is queued again after the delay: its handler asked for it, or `reason` says why."""

    node_id: str
    attempt: int
    task_id: str
    lease_epoch: int
    delay_seconds: float
    reason: str | None = None


@dataclass(slots=True)
class TaskLost:
    """The worker that held the task is gone. `started` losses count towards the dead letter."""

    node_id: str
    attempt: int
    task_id: str
    lease_epoch: int
    worker_id: str
    started: bool


@dataclass(slots=True)
class TaskCheckpointed:
    node_id: str
    attempt: int
    task_id: str
    lease_epoch: int
    phase: str
    data: Any


@dataclass(slots=True)
class TaskWithdrawn:
    """A queue row was deleted before any worker claimed it, or its worker followed the cancellation."""

    node_id: str
    attempt: int
    task_id: str


class Timer(StrEnum):
    RETRY = "retry"
    DEADLINE = "deadline"


@dataclass(slots=True)
class TimerDue:
    """A `next_attempt_at` or `deadline_at` of a node has passed."""

    node_id: str
    attempt: int
    timer: Timer


@dataclass(slots=True)
class Continue:
    """The next chunk of a long expansion or cancellation, requested by `ContinueLater`."""

    node_id: str


@dataclass(slots=True)
class ChildrenReduced:
    """The result of a fan-in, computed outside the transaction by the streaming reducer."""

    node_id: str
    output: Output | None = None
    error_message: str | None = None


@dataclass(slots=True)
class Decided:
    """A person approved or rejected. `clearance` is for the revision that the job makes, if it makes one."""

    node_id: str
    approved: bool
    decided_by: str
    reason: str | None = None
    clearance: str | None = None


@dataclass(slots=True)
class ChildJobEnded:
    node_id: str
    attempt: int
    child_job_id: str
    status: JobStatus
    output: Output | None = None
    error_message: str | None = None
    error: dict[str, Any] | None = None
    warnings: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True)
class CancelJob:
    cancelled_by: str
    reason: str | None = None


@dataclass(slots=True)
class RetryNode:
    """A command to retry a failed or waiting node now."""

    node_id: str
    requested_by: str


@dataclass(slots=True)
class SetWindow:
    """Backpressure: how many unclaimed tasks of this job may be in a queue."""

    queue: str
    limit: int


Input = (
    Start
    | TaskStarted
    | TaskReported
    | TaskSnoozed
    | TaskLost
    | TaskCheckpointed
    | TaskWithdrawn
    | TimerDue
    | Continue
    | ChildrenReduced
    | Decided
    | ChildJobEnded
    | CancelJob
    | RetryNode
    | SetWindow
)
