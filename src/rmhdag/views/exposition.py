"""The platform in Prometheus' words. Label values are states, queues, handlers and the busiest workflows: few, whatever
callers do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

import rmhdag
from rmhdag.models.api.processes import OrchestratorSummary, WorkerSummary
from rmhdag.store import metrics, server_health
from rmhdag.store.connection import Conn
from rmhdag.views.installation import Installation
from rmhdag.views.jobs import open_job_counts
from rmhdag.views.metrics import Tally
from rmhdag.views.processes import list_orchestrators, list_queues, list_workers, unserved_tasks
from rmhdag.views.quota_metrics import quota_metrics
from rmhdag.views.reviews import count_waiting

MOST_QUEUES = 100
MOST_HANDLERS = 100
MOST_WORKFLOWS = 50
# No workflow can be called so.
OTHER_WORKFLOWS = "(others)"
ENDED = ("completed", "failed", "cancelled")
# Gauges of a sliding day: a label `quantile` is for summaries, whose counts never fall.
DURATIONS = (
    ("p50", "Median duration of jobs that completed within the last 24 hours, accurate to 5 %", 0.5),
    ("p95", "95th percentile of the duration of jobs that completed within the last 24 hours, accurate to 5 %", 0.95),
)
RATE_MINUTES = 5
COUNTED = {
    "jobs_ended": "Jobs that ended",
    "tasks_dispatched": "Tasks sent to queues",
    "results_processed": "Inputs handled",
    "errors": "Errors met",
    "duty_failures": "Duties that failed",
    "jobs_poisoned": "Jobs that failed because they could not be handled",
}


class Snapshot:
    """What `generate_latest` asks for its metrics; all were read before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def take_snapshot(
    conn: Conn, settings: Installation, namespace: str, *, of_platform: bool, listeners: int | None = None
) -> Snapshot:
    """Jobs, queues, workers and quotas are those of the namespace. What counts for all of them together, and the quotas
    of others, only the platform's own operators see.
    """
    orchestrators = list_orchestrators(conn, settings.orphan_seconds, None if of_platform else namespace)
    workers = list_workers(conn, settings.orphan_seconds, None if of_platform else namespace)
    families = [*_jobs(conn, namespace), *_queues(conn, settings, namespace), *_reviews(conn, namespace)]
    families += _processes(settings, orchestrators, workers)
    families += quota_metrics(conn, settings.quotas, namespace, listeners, of_platform=of_platform)
    if of_platform:
        families += [*_orchestrators(settings, orchestrators), *_backlogs(conn, namespace), *_database(conn)]
    families.append(gauge("rmhdag_build_info", "Version of this API", 1, version=rmhdag.__version__))
    return Snapshot(families)


def gauge(name: str, text: str, value: float | None, **labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=list(labels))
    if value is not None:
        family.add_metric(list(labels.values()), value)
    return family


def gauges(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value_of_label, value in values:
        family.add_metric([value_of_label], value)
    return family


def _jobs(conn: Conn, namespace: str) -> Iterator[Metric]:
    counts = open_job_counts(conn, namespace)
    yield gauges(
        "rmhdag_jobs",
        "Jobs that have not ended",
        "status",
        ((status, counts.get(status, 0)) for status in ("pending", "running")),
    )
    with metrics.of_days(conn, namespace, 1) as read:
        lines = read.jobs()
    day = Tally()
    for line in lines:
        day.add(line.status, line.bucket, line.jobs, line.duration_ms)
    yield gauges(
        "rmhdag_jobs_ended_1d",
        "Jobs that ended within the last 24 hours and the current hour",
        "status",
        ((status, day.counts.get(status, 0)) for status in ENDED),
    )
    for name, text, share in DURATIONS:
        yield gauge(f"rmhdag_job_duration_{name}_seconds", text, day.percentile(share))
    yield from _workflows(lines)
    with metrics.of_hours(conn, namespace, 1, RATE_MINUTES) as read:
        lately = [jobs for _, jobs, _ in read.throughput(RATE_MINUTES)[-2:]]
    yield gauge("rmhdag_jobs_completed_10m", "Jobs completed in the last two spans of five minutes", sum(lately))


def _workflows(lines: Iterable[metrics.JobBucket]) -> Iterator[Metric]:
    """By workflow: those with the most jobs by name, and all others as one, however many are registered."""
    jobs: Counter[str] = Counter()
    lines = list(lines)
    for line in lines:
        jobs[line.workflow_id] += line.jobs
    named = {workflow_id for workflow_id, _ in jobs.most_common(MOST_WORKFLOWS)}
    tallies: dict[str, Tally] = defaultdict(Tally)
    for line in lines:
        name = line.workflow_id if line.workflow_id in named else OTHER_WORKFLOWS
        tallies[name].add(line.status, line.bucket, line.jobs, line.duration_ms)
    ended = GaugeMetricFamily(
        "rmhdag_workflow_jobs_ended_1d",
        "Jobs that ended within the last 24 hours and the current hour, by workflow",
        labels=["workflow", "status"],
    )
    for name, tally in sorted(tallies.items()):
        for status in ENDED:
            ended.add_metric([name, status], tally.counts.get(status, 0))
    yield ended
    for quantile, text, share in DURATIONS:
        values = ((name, tally.percentile(share)) for name, tally in sorted(tallies.items()))
        yield gauges(
            f"rmhdag_workflow_job_duration_{quantile}_seconds",
            f"{text}, by workflow",
            "workflow",
            ((name, seconds) for name, seconds in values if seconds is not None),
        )


def _queues(conn: Conn, settings: Installation, namespace: str) -> Iterator[Metric]:
    lines = list_queues(conn, namespace, settings.orphan_seconds)[:MOST_QUEUES]
    tasks = GaugeMetricFamily("rmhdag_queue_tasks", "Tasks in a queue", labels=["queue", "state"])
    for line in lines:
        for state, count in (("waiting", line.waiting), ("delayed", line.delayed), ("running", line.running)):
            tasks.add_metric([line.queue, state], count)
    yield tasks
    yield gauges(
        "rmhdag_queue_oldest_seconds",
        "Age of the oldest waiting task",
        "queue",
        ((line.queue, line.oldest_seconds or 0.0) for line in lines),
    )
    yield gauges("rmhdag_queue_slots", "Tasks that workers can run", "queue", ((q.queue, q.slots) for q in lines))
    unserved = GaugeMetricFamily(
        "rmhdag_unserved_tasks",
        "Waiting tasks that no live worker of their queue can run",
        labels=["queue", "handler"],
    )
    for gap in unserved_tasks(conn, namespace, settings.orphan_seconds, MOST_HANDLERS):
        unserved.add_metric([gap.queue, gap.handler], gap.waiting)
    yield unserved
    yield gauges("rmhdag_dead_letters", "Open dead letters", "queue", ((q.queue, q.dead_letters) for q in lines))


def _processes(
    settings: Installation, orchestrators: Sequence[OrchestratorSummary], workers: Sequence[WorkerSummary]
) -> Iterator[Metric]:
    for name, silences in (
        ("orchestrators", [line.silent_seconds for line in orchestrators]),
        ("workers", [line.silent_seconds for line in workers]),
    ):
        alive = sum(seconds < settings.orphan_seconds for seconds in silences)
        yield gauges(
            f"rmhdag_{name}", "Processes by heartbeat", "state", (("alive", alive), ("silent", len(silences) - alive))
        )
    yield gauge("rmhdag_worker_slots", "Tasks that all workers can run", sum(line.slots for line in workers))
    yield gauge("rmhdag_worker_tasks", "Tasks that workers hold", sum(line.tasks_held for line in workers))
    yield gauge("rmhdag_jobs_owned", "Jobs that orchestrators own", sum(line.jobs_owned for line in orchestrators))


def _orchestrators(settings: Installation, orchestrators: Sequence[OrchestratorSummary]) -> Iterator[Metric]:
    yield gauge(
        "rmhdag_orchestrator_backlog",
        "Inputs read and not handled yet",
        sum(line.stats.get("backlog", 0) for line in orchestrators),
    )
    slowest = [line.stats["cycle_ms_p99"] for line in orchestrators if line.stats.get("cycle_ms_p99") is not None]
    yield gauge(
        "rmhdag_orchestrator_cycle_p99_seconds",
        "Of the slowest orchestrator",
        max(slowest) / 1000 if slowest else None,
    )
    for name, text in COUNTED.items():
        family = CounterMetricFamily(f"rmhdag_{name}", f"{text}, by the running orchestrators")
        family.add_metric([], sum(line.stats.get(name, 0) for line in orchestrators))
        yield family
    loops: dict[str, float] = {}
    restarts: Counter[str] = Counter()
    for line in orchestrators:
        restarts.update(line.stats.get("threads", {}))
        for name, age in line.stats.get("loops", {}).items():
            loops[name] = max(age, loops.get(name, 0.0))
    yield gauges(
        "rmhdag_orchestrator_loop_age_seconds",
        "Since the slowest loop of this name finished a turn",
        "loop",
        loops.items(),
    )
    family = CounterMetricFamily(
        "rmhdag_orchestrator_thread_restarts", "Threads that failed and were restarted", labels=["thread"]
    )
    for name, count in restarts.items():
        family.add_metric([name], count)
    yield family
    yield from _retention([line.stats for line in orchestrators if line.alive])


def _retention(stats: Sequence[dict[str, Any]]) -> Iterator[Metric]:
    pruned: Counter[str] = Counter()
    for figures in stats:
        pruned.update(figures.get("pruned_rows", {}))
    family = CounterMetricFamily(
        "rmhdag_pruned_rows", "Old rows deleted by the running orchestrators", labels=["table"]
    )
    for table, rows in sorted(pruned.items()):
        family.add_metric([table], rows)
    yield family
    behind = [
        figures["retention_behind_seconds"] for figures in stats if figures.get("retention_behind_seconds") is not None
    ]
    yield gauge(
        "rmhdag_retention_behind_seconds",
        "Delay of retention, of the orchestrator that is least behind",
        min(behind, default=None),
    )


def _backlogs(conn: Conn, namespace: str) -> Iterator[Metric]:
    waiting = server_health.backlogs(conn, namespace)
    rows = (
        ("inbox", waiting.inbox_rows),
        ("outbox", waiting.outbox_rows),
        ("callbacks", waiting.callback_rows),
        ("service_calls", waiting.service_rows),
        ("file_deletions", waiting.deletion_rows),
        ("table_places", waiting.place_rows),
        ("table_drops", waiting.drop_rows),
    )
    yield gauges("rmhdag_backlog_rows", "Rows that wait; counts end at 10,000", "table", rows)
    ages = (
        ("inbox", waiting.inbox_seconds or 0.0),
        ("outbox", waiting.outbox_seconds or 0.0),
        ("callbacks", waiting.callback_seconds or 0.0),
        ("service_calls", waiting.service_seconds or 0.0),
        ("file_deletions", waiting.deletion_seconds or 0.0),
        ("table_places", waiting.place_seconds or 0.0),
        ("table_drops", waiting.drop_seconds or 0.0),
    )
    yield gauges(
        "rmhdag_backlog_oldest_seconds",
        "Age of the oldest row; for retries, since it was due",
        "table",
        ages,
    )
    yield gauge("rmhdag_dead_table_places", "Public names of tables in PostGIS that were given up", waiting.dead_places)
    yield gauge(
        "rmhdag_unclaimed_job_seconds", "Age of the oldest job without an owner", waiting.unclaimed_seconds or 0
    )


def _reviews(conn: Conn, namespace: str) -> Iterator[Metric]:
    waiting = next(iter(count_waiting(conn, namespace)), None)
    yield gauge(
        "rmhdag_reviews_waiting", "Revisions that wait for a reviewer", 0 if waiting is None else waiting.revisions
    )
    yield gauge(
        "rmhdag_oldest_review_seconds",
        "Age of the oldest revision that waits for a reviewer",
        0.0 if waiting is None else waiting.oldest_seconds,
    )


def _database(conn: Conn) -> Iterator[Metric]:
    server, dead = server_health.server(conn), server_health.dead_rows(conn)
    for name, text, value in (
        ("connections", "Connections to the server", server.connections),
        ("max_connections", "Maximum that the server allows", server.max_connections),
        ("oldest_transaction_seconds", "Age of the oldest transaction", server.oldest_transaction_seconds),
        ("idle_in_transaction_seconds", "Longest idle in a transaction", server.idle_in_transaction_seconds),
        ("blocked", "Sessions that have waited for a lock for 2 s", server.blocked),
        ("transaction_age", "Transactions since the last freeze", server.transaction_age),
        ("dead_rows", "In the table with the most of them", dead.dead),
    ):
        yield gauge(f"rmhdag_database_{name}", text, value)
