"""What a job would cost, as far as it is known before it runs: nothing is guessed."""

from __future__ import annotations

from rmhdag.models.api.previews import JobEstimate
from rmhdag.store import metrics
from rmhdag.store.connection import Conn
from rmhdag.views.metrics import Tally

DAYS = 30
# Fewer runs are no experience, and would show how long a single job of somebody else took.
LEAST_RUNS = 5


def estimate_of(
    conn: Conn, namespace: str, workflow_id: str, *, tasks: int | None, input_bytes: int | None
) -> JobEstimate:
    tally = Tally()
    with metrics.of_days(conn, namespace, DAYS) as read:
        for line in read.jobs(workflow_id):
            tally.add(line.status, line.bucket, line.jobs, line.duration_ms)
    runs = tally.counts["completed"]
    is_known = runs >= LEAST_RUNS
    return JobEstimate(
        tasks=tasks,
        input_bytes=input_bytes,
        runs=runs,
        p50_seconds=tally.percentile(0.5) if is_known else None,
        p95_seconds=tally.percentile(0.95) if is_known else None,
    )
