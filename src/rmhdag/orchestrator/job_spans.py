"""The span of a job: its tasks name it as their parent from the first, and the job's owner at its end records it.

Nothing is recorded in between: events and the spans of its tasks show what happens inside a job.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rmhdag.models.states import JobStatus
from rmhdag.observability import traces
from rmhdag.observability.traces import Attributes, SpanSeed

if TYPE_CHECKING:
    from rmhdag.orchestrator.owned_jobs import OwnedJob


def announce_job(job_id: str, submitted_trace: str | None) -> str | None:
    """What tasks and child jobs are told; what the submission said, if this process sends no spans."""
    tracing = traces.active()
    return submitted_trace if tracing is None else tracing.announce(_seed(job_id, submitted_trace))


def record_job(job: OwnedJob, status: JobStatus | None = None) -> None:
    tracing = traces.active()
    if tracing is None:
        return
    run, status = job.run, status or job.run.status
    definition = run.plan.definition
    attributes: Attributes = {
        "rmhdag.job_id": job.job_id,
        "rmhdag.workflow_id": definition.workflow_id,
        "rmhdag.workflow_version": definition.version,
        "rmhdag.namespace": job.namespace,
        "rmhdag.status": status.value,
    }
    error = None if status is JobStatus.COMPLETED else status.value
    start_ns, end_ns = _nanoseconds(run.started_at or run.now), _nanoseconds(run.now)
    tracing.record(_seed(job.job_id, job.submitted_trace), start_ns, end_ns, attributes, error=error)


def _seed(job_id: str, submitted_trace: str | None) -> SpanSeed:
    return SpanSeed("job", job_id, f"job {job_id}", submitted_trace)


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
