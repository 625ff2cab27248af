"""The engine's decisions, as data. The store turns the effects of many jobs into a few set-based statements.

Fields that are None leave the column as it is, except where a comment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import JobEnding, JobStatus, NodeStatus


@dataclass(slots=True)
class NodesCreated:
    """The static nodes of a job, all `pending`; written once, when the job starts."""

    node_ids: list[str]
    max_retries: list[int]


@dataclass(slots=True)
class NewChild:
    index: int
    node_id: str
    input_params: dict[str, Any]
    item_key: str | None = None
    reused_task_id: str | None = None  # set: the child is born `completed`
    error_message: str | None = None  # set: its parameters cannot be resolved, the child is born `failed`


@dataclass(slots=True)
class ChildrenCreated:
    """One chunk of a fan-out: rows are born `ready` (see NewChild for the two exceptions)."""

    fan_out_id: str
    children: list[NewChild]
    max_retries: int


@dataclass(slots=True)
class ChildrenCancelled:
    """Every child with start ≤ index < stop that is still `ready` becomes `cancelled`."""

    fan_out_id: str
    start: int
    stop: int


@dataclass(slots=True)
class NodeChanged:
    """The node row after this input. The guard is the job's lock, so the row is written as it is.

    `next_attempt_at` and `deadline_at` are always written: None clears them. `completed` clears `error_message` and
    `error`; a new message brings its own `error` or none. In one batch, a later change of a node replaces an earlier
    one. The store stamps `ready_at`, `dispatched_at`, `started_at` and `completed_at` with the batch's time as
    the status says.
    """

    node_id: str
    status: NodeStatus
    attempt: int
    task_id: str | None = None
    lease_losses: int = 0
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    input_params: dict[str, Any] | None = None
    output: Any = None  # only outputs that the engine itself created; a task's output is stored once, with its result
    error_message: str | None = None
    reused_task_id: str | None = None
    checkpoint_phase: str | None = None
    checkpoint_data: Any = None
    duration_ms: int | None = None  # of a task whose report arrived before its start
    error: dict[str, Any] | None = None


@dataclass(slots=True)
class TaskQueued:
    """Insert the queue row of an attempt. `params` None: as stored on the node row."""

    task_id: str
    node_id: str
    attempt: int
    queue: str
    handler: str
    timeout_seconds: int
    params: dict[str, Any] | None
    lease_losses: int = 0


@dataclass(slots=True)
class TaskRequeued:
    """Free the row of a lost lease for the next claim, if (task_id, lease_epoch) still matches."""

    task_id: str
    lease_epoch: int
    lease_losses: int


@dataclass(slots=True)
class TaskRevoked:
    """Delete the row, even if a worker holds it: a later report finds no row and changes nothing.

    With a lease epoch, the effect applies to that lease only: if the task has another lease, the decision is void.
    """

    task_id: str
    lease_epoch: int | None = None


@dataclass(slots=True)
class TasksWithdrawn:
    """The job is ending: unclaimed rows are deleted, each with a `TaskWithdrawn` in the inbox; claimed tasks stop."""


@dataclass(slots=True)
class TaskDeadLettered:
    task_id: str
    node_id: str
    queue: str
    reason: str


@dataclass(slots=True)
class JobChanged:
    status: JobStatus
    ending: JobEnding | None = None
    result: dict[str, Any] | None = None
    error_message: str | None = None
    error: dict[str, Any] | None = None


@dataclass(slots=True)
class WarningsCounted:
    """The job's current warnings, summed by code; a later effect replaces an earlier one."""

    warnings: list[dict[str, Any]]


@dataclass(slots=True)
class EventAppended:
    seq: int
    event_type: EventType
    event_status: EventStatus
    node_id: str | None
    task_id: str | None
    data: dict[str, Any]
    error_message: str | None = None
    duration_ms: int | None = None


@dataclass(slots=True)
class ChildJobRequested:
    """Insert the child job in this transaction; the same id again is the same job."""

    child_job_id: str
    node_id: str
    attempt: int
    workflow_id: str
    workflow_version: int | None
    input_params: dict[str, Any]
    depth: int


@dataclass(slots=True)
class ChildJobCancelled:
    child_job_id: str
    reason: str


@dataclass(slots=True)
class ParentNotified:
    """The job is terminal and has a parent: `ChildJobEnded` goes into the parent's inbox."""

    parent_job_id: str
    parent_node_id: str
    status: JobStatus
    result: dict[str, Any] | None
    error_message: str | None
    error: dict[str, Any] | None = None
    has_warnings: bool = False


@dataclass(slots=True)
class AggregationRequested:
    """Run the reducer over the children's outputs, outside the transaction; answer with `ChildrenReduced`."""

    node_id: str
    fan_out_id: str
    aggregation: str
    field: str | None
    total: int
    failed_count: int


@dataclass(slots=True)
class ApprovalRequested:
    """A person is asked to decide. Repeated after a reload, when the request may exist already."""

    node_id: str
    message: str | None
    params: dict[str, Any]
    approvers: tuple[str, ...]
    deadline_at: datetime | None = None


@dataclass(slots=True)
class ApprovalClosed:
    """The request for a decision is over: it was decided, timed out or cancelled."""

    node_id: str


@dataclass(slots=True)
class ApprovalDecided:
    """A person has decided; the revision that the job makes follows, if it makes one that is reviewed."""

    approved: bool
    decided_by: str
    reason: str | None
    clearance: str | None


@dataclass(slots=True)
class ContinueLater:
    """Give the other jobs a turn, then apply `Continue(node_id)`."""

    node_id: str


@dataclass(slots=True)
class RecordsPublished:
    """Domain records of a completed node, to be applied in this very transaction (the publish lane)."""

    node_id: str
    task_id: str
    records: tuple[Any, ...]


@dataclass(slots=True)
class CommandAnswered:
    """The outcome of a command; a refused command has changed nothing."""

    applied: bool
    reason: str


Effect = (
    NodesCreated
    | ChildrenCreated
    | ChildrenCancelled
    | NodeChanged
    | TaskQueued
    | TaskRequeued
    | TaskRevoked
    | TasksWithdrawn
    | TaskDeadLettered
    | JobChanged
    | WarningsCounted
    | EventAppended
    | ChildJobRequested
    | ChildJobCancelled
    | ParentNotified
    | AggregationRequested
    | ApprovalRequested
    | ApprovalClosed
    | ApprovalDecided
    | ContinueLater
    | RecordsPublished
    | CommandAnswered
)
