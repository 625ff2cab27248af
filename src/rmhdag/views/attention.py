"""What needs a person: failures by their error, jobs that take too long, queues without workers, and what waits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from psycopg import sql
from psycopg.rows import class_row, dict_row

from rmhdag.models.api.attention import Attention, FailureGroup, Pulse, SlowJob
from rmhdag.models.api.queues import QueueStatus
from rmhdag.models.states import JobStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.job_lists import FAILURE, JobFilters, count_jobs
from rmhdag.views.metrics import workflow_metrics

SQL = load_queries(__file__)

MOST_FAILURES = 10_000
MOST_GROUPS = 20
MOST_RUNNING = 500
MOST_FINISHED = 20_000
USUAL_DAYS = 7
# A job that is over sooner is not worth a look, however fast the others were.
SLOW_SECONDS = 60.0
# After so many tries a callback is failing, and not just late.
CALLBACK_TRIES = 3

FAILURES = sql.SQL(
    "SELECT failure, workflow_id, count(*) AS count, min(completed_at) AS first_seen_at,"
    " max(completed_at) AS last_seen_at, (array_agg(job_id ORDER BY completed_at DESC))[1] AS newest_job_id,"
    " (array_agg(error ORDER BY completed_at DESC))[1] AS error"
    " FROM (SELECT job_id, workflow_id, completed_at, left(COALESCE(error_message, ''), 300) AS error, {} AS failure"
    " FROM dag_jobs WHERE namespace = %(namespace)s AND completed_at >= %(since)s AND status = 'failed'"
    " ORDER BY completed_at DESC LIMIT %(most)s) AS failed"
    " GROUP BY failure, workflow_id ORDER BY count(*) DESC, max(completed_at) DESC"
).format(FAILURE)


def read_attention(conn: Conn, namespace: str, since: datetime, queues: list[QueueStatus]) -> Attention:
    parameters = {"namespace": namespace, "since": since, "most": MOST_FAILURES}
    with conn.cursor(row_factory=class_row(FailureGroup)) as cursor:
        groups = cursor.execute(FAILURES, parameters, prepare=False).fetchall()
    with conn.cursor(row_factory=dict_row) as counts_cursor:
        counts = counts_cursor.execute(SQL["waiting_counts"], {"namespace": namespace, "tries": CALLBACK_TRIES})
        waiting: dict[str, Any] = counts.fetchone() or {}
    return Attention(
        since=since,
        failed_jobs=sum(group.count for group in groups),
        failures=groups[:MOST_GROUPS],
        slow_jobs=_slow_jobs(conn, namespace),
        # Dead letters are counted by themselves.
        queues=[queue for queue in queues if queue.waiting and not queue.workers],
        **waiting,
    )


def _slow_jobs(conn: Conn, namespace: str) -> list[SlowJob]:
    running = conn.execute(SQL["running_longest"], {"namespace": namespace, "most": MOST_RUNNING}).fetchall()
    if not running:
        return []
    usual = {
        line.workflow_id: line.p95_duration_seconds
        for line in workflow_metrics(conn, namespace, USUAL_DAYS).workflows
        if line.p95_duration_seconds is not None
    }
    slow = [
        SlowJob(
            job_id=job_id,
            workflow_id=workflow_id,
            submitted_by=submitted_by,
            started_at=started_at,
            running_seconds=seconds,
            usual_seconds=usual[workflow_id],
        )
        for job_id, workflow_id, submitted_by, started_at, seconds in running
        if workflow_id in usual and seconds > max(SLOW_SECONDS, usual[workflow_id])
    ]
    return sorted(slow, key=lambda job: -job.running_seconds / max(job.usual_seconds, 1e-3))[:MOST_GROUPS]


def read_pulse(conn: Conn, namespace: str, since: datetime) -> Pulse:
    parameters = {"namespace": namespace, "since": since, "most": MOST_FINISHED}
    with conn.cursor(row_factory=dict_row) as cursor:
        figures: dict[str, Any] = cursor.execute(SQL["finished"], parameters).fetchone() or {}
    judged = figures["completed"] + figures["failed"]
    unfinished = count_jobs(conn, namespace, JobFilters(statuses=(JobStatus.RUNNING, JobStatus.PENDING)))
    return Pulse(
        since=since,
        is_sample=figures["finished"] >= MOST_FINISHED,
        success_rate=round(100 * figures["completed"] / judged, 2) if judged else None,
        running=unfinished.counts[JobStatus.RUNNING],
        pending=unfinished.counts[JobStatus.PENDING],
        **figures,
    )
