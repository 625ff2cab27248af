"""A task as its worker holds it, and what a worker reports about it: the same over the database and over HTTP."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from rmhdag.models.events import ErrorKind
from rmhdag.models.states import TaskStatus

# (task id, lease epoch): what entitles to write anything about a task.
Pair = tuple[str, int]


class PayloadMissingError(Exception):
    """A reference points to nothing: pruned, or of another namespace."""


class ClaimedTask(NamedTuple):
    """`lanes`: so many slots of the worker its namespace may use at most; None for all of them."""

    task_id: str
    job_id: str
    node_id: str
    queue: str
    handler: str
    params: dict[str, Any]
    timeout_seconds: int
    attempt: int
    lease_epoch: int
    lease_losses: int
    priority: int
    checkpoint_phase: str | None
    checkpoint_data: Any
    trace_parent: str | None
    order_key: int
    namespace: str
    lanes: int | None = None


class TaskReport(NamedTuple):
    """What became of a lease. Whatever is bytes is JSON text already: encoded once, where it is checked."""

    task_id: str
    lease_epoch: int
    status: TaskStatus
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    duration_ms: int = 0
    output: bytes | None = None
    metrics: dict[str, Any] | None = None
    started_ms_ago: float = 0.0
    records: bytes | None = None
    error: bytes | None = None
    warnings: bytes | None = None


class ReturnReason(StrEnum):
    """Why a worker gives a task back without its handler having asked for it."""

    WORKER_STOPPING = "worker_stopping"
    WORKER_FROZEN = "worker_frozen"
    WORKER_BUSY = "worker_busy"
    NO_HANDLER = "no_handler"


class ReturnedLease(NamedTuple):
    """A released task: without a delay if it never ran, otherwise with the seconds until it is queued again."""

    task_id: str
    lease_epoch: int
    delay_seconds: float | None = None
    reason: ReturnReason | None = None


class BeatAnswer(StrEnum):
    """What a process hears when it says that it lives."""

    GO_ON = "go_on"
    # The worker should finish or release its tasks, and end.
    DRAIN = "drain"
    # The worker was declared dead and has lost its leases.
    GONE = "gone"


class HeldTask(NamedTuple):
    task_id: str
    lease_epoch: int
    cancel_requested: bool


class TaskProgress(NamedTuple):
    task_id: str
    lease_epoch: int
    current: int
    total: int | None
    percent: float | None
    message: str | None


def percent_of(current: float, total: float | None) -> float | None:
    """Who does more than was announced has done all of it."""
    return min(100.0, 100.0 * current / total) if total else None


class CheckpointToSave(NamedTuple):
    """`data` is JSON text."""

    task_id: str
    lease_epoch: int
    phase: str
    data: bytes
    artifact_hash: str | None


class LogChunk(NamedTuple):
    task_id: str
    lease_epoch: int
    chunk_index: int
    job_id: str
    node_id: str
    namespace: str
    line_count: int
    truncated: bool
    content: str
