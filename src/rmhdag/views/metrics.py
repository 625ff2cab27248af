"""Metrics of a namespace, from what the store has counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rmhdag.models.api.metrics import (
    CommonFailure,
    FailureCount,
    FailureMetrics,
    MetricsPeriod,
    NodeMetrics,
    NodeMetricsList,
    ThroughputBucket,
    ThroughputMetrics,
    WorkflowMetrics,
    WorkflowMetricsList,
)
from rmhdag.store import metrics
from rmhdag.store.connection import Conn
from rmhdag.store.metrics import percentile_seconds

MOST_COMMON = 5


@dataclass
class Tally:
    """Counts by status, and the durations of what completed."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    buckets: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    duration_ms: int = 0
    retries: int = 0

    def add(self, status: str, bucket: int, count: int, duration_ms: int, retries: int = 0) -> None:
        self.counts[status] += count
        self.retries += retries
        if status == "completed":
            self.buckets[bucket] += count
            self.duration_ms += duration_ms

    @property
    def finished(self) -> int:
        return sum(self.counts.values())

    @property
    def success_rate(self) -> float | None:
        return None if not self.finished else round(100 * self.counts["completed"] / self.finished, 2)

    @property
    def average_seconds(self) -> float | None:
        completed = self.counts["completed"]
        return None if not completed else round(self.duration_ms / completed / 1000, 3)

    def percentile(self, share: float) -> float | None:
        seconds = percentile_seconds(self.buckets, share)
        return None if seconds is None else round(seconds, 3)


def workflow_metrics(conn: Conn, namespace: str, days: int, workflow_id: str | None = None) -> WorkflowMetricsList:
    with metrics.of_days(conn, namespace, days) as read:
        tallies: dict[str, Tally] = defaultdict(Tally)
        for line in read.jobs(workflow_id):
            tallies[line.workflow_id].add(line.status, line.bucket, line.jobs, line.duration_ms)
        unfinished = read.open_jobs(workflow_id)
        failures: dict[str, list[metrics.Failure]] = defaultdict(list)
        for failure in _most_frequent(read.failures(workflow_id)):
            failures[failure.workflow_id].append(failure)
    return WorkflowMetricsList(
        period=_shown(read.period),
        workflows=[
            _workflow(name, tallies[name], unfinished.get(name, 0), failures[name])
            for name in sorted(tallies.keys() | unfinished.keys())
        ],
    )


def _workflow(name: str, tally: Tally, unfinished: int, failures: list[metrics.Failure]) -> WorkflowMetrics:
    return WorkflowMetrics(
        workflow_id=name,
        total_jobs=tally.finished + unfinished,
        completed=tally.counts["completed"],
        failed=tally.counts["failed"],
        cancelled=tally.counts["cancelled"],
        success_rate=tally.success_rate,
        avg_duration_seconds=tally.average_seconds,
        p50_duration_seconds=tally.percentile(0.5),
        p95_duration_seconds=tally.percentile(0.95),
        common_failures=[
            CommonFailure(node_id=failure.node_id or None, count=failure.failures, error=failure.error)
            for failure in failures[:MOST_COMMON]
        ],
    )


def node_metrics(conn: Conn, namespace: str, workflow_id: str, days: int) -> NodeMetricsList:
    with metrics.of_days(conn, namespace, days) as read:
        lines = read.nodes(workflow_id)
    fan_outs = {line.node_id for line in lines if line.is_child}
    tallies: dict[str, Tally] = defaultdict(Tally)
    for line in lines:
        if line.is_child == (line.node_id in fan_outs):
            tallies[line.node_id].add(line.status, line.bucket, line.nodes, line.duration_ms, line.retries)
    return NodeMetricsList(
        period=_shown(read.period),
        workflow_id=workflow_id,
        nodes=[
            NodeMetrics(
                node_id=node_id,
                total_executions=tally.finished,
                completed=tally.counts["completed"],
                failed=tally.counts["failed"],
                success_rate=tally.success_rate,
                avg_duration_seconds=tally.average_seconds,
                p50_duration_seconds=tally.percentile(0.5),
                p95_duration_seconds=tally.percentile(0.95),
                total_retries=tally.retries,
            )
            for node_id, tally in sorted(tallies.items())
        ],
    )


def failure_metrics(
    conn: Conn, namespace: str, days: int, limit: int, workflow_id: str | None = None
) -> FailureMetrics:
    with metrics.of_days(conn, namespace, days) as read:
        failures = _most_frequent(read.failures(workflow_id))
    return FailureMetrics(
        period=_shown(read.period),
        total_failures=sum(failure.failures for failure in failures),
        unique_errors=len({failure.error for failure in failures}),
        failures=[
            FailureCount(
                workflow_id=failure.workflow_id,
                node_id=failure.node_id or None,
                error=failure.error,
                count=failure.failures,
                last_seen_at=failure.last_at,
            )
            for failure in failures[:limit]
        ],
    )


def throughput_metrics(conn: Conn, namespace: str, hours: int, bucket_minutes: int) -> ThroughputMetrics:
    with metrics.of_hours(conn, namespace, hours, bucket_minutes) as read:
        counts = {start: (jobs, duration_ms) for start, jobs, duration_ms in read.throughput(bucket_minutes)}
    buckets = []
    start: datetime = read.period.since
    while start <= read.period.until:
        jobs, duration_ms = counts.get(start, (0, 0))
        average = round(duration_ms / jobs / 1000, 3) if jobs else None
        buckets.append(ThroughputBucket(timestamp=start, jobs_completed=jobs, avg_duration_seconds=average))
        start += timedelta(minutes=bucket_minutes)
    return ThroughputMetrics(period=_shown(read.period), bucket_minutes=bucket_minutes, buckets=buckets)


def _most_frequent(failures: Iterable[metrics.Failure]) -> list[metrics.Failure]:
    """Each once, whichever side of the mark it came from."""
    merged: dict[tuple[str, str, str], metrics.Failure] = {}
    for failure in failures:
        key = (failure.workflow_id, failure.node_id, failure.error)
        other = merged.get(key)
        merged[key] = (
            failure
            if other is None
            else failure._replace(
                failures=failure.failures + other.failures, last_at=max(failure.last_at, other.last_at)
            )
        )
    return sorted(
        merged.values(), key=lambda failure: (-failure.failures, failure.workflow_id, failure.node_id, failure.error)
    )


def _shown(period: metrics.Period) -> MetricsPeriod:
    return MetricsPeriod(since=period.since, until=period.until)
