"""The codes that say where a node stands, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class ReasonCode(StrEnum):
    JOB_NOT_STARTED = "job_not_started"
    JOB_ENDING = "job_ending"
    WAITS_FOR_DEPENDENCIES = "waits_for_dependencies"
    WAITS_FOR_RETRY = "waits_for_retry"
    WAITS_FOR_ROOM = "waits_for_room"
    WAITS_FOR_MAX_PARALLEL = "waits_for_max_parallel"
    WAITS_FOR_WORKER = "waits_for_worker"
    # Added by the read model, which knows the workers; the engine knows only that the task waits for one.
    WAITS_FOR_HANDLER = "waits_for_handler"
    # Added by the read model, which knows the queues: for the engine the task is already sent.
    WAITS_FOR_DUE_TIME = "waits_for_due_time"
    WAITS_FOR_APPROVAL = "waits_for_approval"
    WAITS_FOR_CHILD_JOB = "waits_for_child_job"
    WAITS_FOR_CHILDREN = "waits_for_children"
    NOT_EXPANDED = "not_expanded"
    EXPANDING = "expanding"
    AGGREGATING = "aggregating"
    RUNS = "runs"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    UNKNOWN_NODE = "unknown_node"


# Code, sentence, hint.
Reason = tuple[ReasonCode, str, str | None]


def in_words(moment: datetime) -> str:
    """A time inside a sentence, to the second: `2026-03-01 00:01:00 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
