"""What needs a person, and how the last hours went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.routes.jobs import read_page
from rmhdag.models.api.attention import Attention, Pulse
from rmhdag.models.api.dashboard import Dashboard
from rmhdag.models.states import JobStatus
from rmhdag.views import metrics, processes
from rmhdag.views.attention import read_attention, read_pulse
from rmhdag.views.job_lists import JobFilters

router = APIRouter(prefix="/api/v1", tags=["attention"])

MOST_OPEN_JOBS = 8
Hours = Annotated[int, Query(ge=1, le=168, description="So far back")]


@router.get("/attention")
def attention(caller: Reader, api: ApiContext, hours: Hours = 24) -> Attention:
    """What needs a person: failures by error, slow jobs, queues without workers, dead letters, decisions."""
    with api.connection() as conn:
        queues = processes.queues(conn, caller.namespace, api.settings.queues, api.settings.orphan_seconds).queues
        return read_attention(conn, caller.namespace, _since(hours), queues)


@router.get("/pulse")
def pulse(caller: Reader, api: ApiContext, hours: Hours = 24) -> Pulse:
    """How the jobs of the last hours went: counts, success, durations, waits."""
    with api.connection() as conn:
        return read_pulse(conn, caller.namespace, _since(hours))


@router.get("/dashboard")
def dashboard(
    caller: Reader,
    api: ApiContext,
    hours: Hours = 24,
    bucket_minutes: Annotated[int, Query(ge=1, le=1440, description="Of the throughput")] = 60,
) -> Dashboard:
    """All parts of the first screen at once: attention, pulse, throughput, open jobs with progress, workers."""
    settings = api.settings
    since = _since(hours)
    with api.connection() as conn:
        queues = processes.queues(conn, caller.namespace, settings.queues, settings.orphan_seconds).queues
        filters = JobFilters(statuses=(JobStatus.RUNNING, JobStatus.PENDING), limit=MOST_OPEN_JOBS + 1)
        return Dashboard(
            attention=read_attention(conn, caller.namespace, since, queues),
            pulse=read_pulse(conn, caller.namespace, since),
            throughput=metrics.throughput_metrics(conn, caller.namespace, hours, bucket_minutes),
            open_jobs=read_page(conn, caller.namespace, filters, with_progress=True),
            workers=processes.workers(conn, settings.orphan_seconds, caller.sees),
        )


def _since(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)
