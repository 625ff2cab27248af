"""The span of a task: its id is sent to the child; the parent, which learns of every end, records it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmhdag.observability.traces import Attributes, SpanSeed, Tracing

if TYPE_CHECKING:
    from rmhdag.models.leases import ClaimedTask
    from rmhdag.worker.lease import Lease


class TaskSpans:
    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def announce(self, task: ClaimedTask) -> str:
        """The parent of the handler's own spans."""
        return self._tracing.announce(_seed(task))

    def record(self, lease: Lease, outcome: str, error_kind: str | None, took_ms: int) -> None:
        task = lease.task
        # Children share our monotonic clock; the span of a task that never began has no duration.
        ago_ns = time.monotonic_ns() - lease.began_ns if lease.began_ns else 0
        start_ns = time.time_ns() - ago_ns
        attributes: Attributes = {
            "rmhdag.job_id": task.job_id,
            "rmhdag.node_id": task.node_id,
            "rmhdag.task_id": task.task_id,
            "rmhdag.handler": task.handler,
            "rmhdag.attempt": task.attempt,
            "rmhdag.lease_epoch": task.lease_epoch,
            "rmhdag.outcome": outcome,
        }
        self._tracing.record(_seed(task), start_ns, start_ns + took_ms * 1_000_000, attributes, error=error_kind)


def _seed(task: ClaimedTask) -> SpanSeed:
    # Each lease is a separate run.
    return SpanSeed(f"task {task.handler}", task.job_id, f"{task.task_id}.{task.lease_epoch}", task.trace_parent)
