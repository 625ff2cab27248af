"""What orchestrators know of themselves, from their heartbeats; what they have ended, from the rows.

The API is a process of its own. So "the" orchestrator is the one beside it: of the same host and heard last, or else
of any host.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from rmhdag.models.api.event_messages import message
from rmhdag.models.api.orchestrator_figures import (
    EndedJob,
    FailingHandler,
    FailingQueue,
    OrchestratorActivity,
    OrchestratorEvent,
    OrchestratorStats,
    OrchestratorStatus,
    Takeover,
)
from rmhdag.models.api.processes import OrchestratorSummary
from rmhdag.store import activity
from rmhdag.store.connection import Conn
from rmhdag.views.processes import COUNTS, list_orchestrators


def find_orchestrators(
    conn: Conn, namespace: str | None, alive_seconds: float, *, everyone: bool
) -> list[OrchestratorSummary]:
    """As a namespace sees them: all, or the one beside the API."""
    lines = list_orchestrators(conn, alive_seconds, namespace)
    if everyone or not lines:
        return lines
    here = platform.node()[:64]
    return [max(lines, key=lambda line: (line.host == here, line.heartbeat_at))]


def status_of(line: OrchestratorSummary) -> OrchestratorStatus:
    stats = line.stats
    return OrchestratorStatus(
        owner_id=line.owner_id,
        host=line.host,
        process_id=line.process_id,
        version=line.version,
        alive=line.alive,
        stopping=line.stopping,
        started_at=line.started_at,
        uptime_seconds=_uptime(line),
        last_heartbeat_at=line.heartbeat_at,
        phase=stats.get("phase", "idle"),
        jobs_owned=line.jobs_owned,
        backlog=stats.get("backlog", 0),
        errors=stats.get("errors", 0),
        last_error=stats.get("last_error"),
        last_orphan_scan_at=_scanned_at(line),
    )


def stats_of(line: OrchestratorSummary) -> OrchestratorStats:
    stats = line.stats
    return OrchestratorStats(
        owner_id=line.owner_id,
        uptime_seconds=_uptime(line),
        cycle_ms_avg=stats.get("cycle_ms_avg"),
        cycle_ms_p99=stats.get("cycle_ms_p99"),
        jobs_owned=line.jobs_owned,
        backlog=stats.get("backlog", 0),
        errors=stats.get("errors", 0),
        last_error=stats.get("last_error"),
        last_heartbeat_at=line.heartbeat_at,
        last_orphan_scan_at=_scanned_at(line),
        **{name: stats.get(name, 0) for name in COUNTS},
    )


def activity_of(conn: Conn, namespace: str, owners: Sequence[str] | None, *, with_errors: bool) -> OrchestratorActivity:
    handlers = [FailingHandler(**row) for row in activity.failing_handlers(conn, namespace)]
    queues: Counter[str] = Counter()
    for handler in handlers:
        if handler.queue is not None:
            queues[handler.queue] += handler.failures
    return OrchestratorActivity(
        completions=[EndedJob(**row) for row in activity.last_completions(conn, namespace)],
        failures=[EndedJob(**row) for row in activity.last_failures(conn, namespace)],
        failing_handlers=handlers,
        failing_queues=[FailingQueue(queue=queue, failures=count) for queue, count in queues.most_common()],
        events=[_event(row) for row in activity.orchestrator_events(conn, namespace, owners, with_errors)],
        takeovers=[_takeover(row) for row in activity.takeovers(conn, namespace)],
    )


def _takeover(row: dict[str, Any]) -> Takeover:
    data = row["event_data"]
    return Takeover(
        job_id=row["job_id"],
        node_id=row["node_id"],
        timestamp=row["created_at"],
        message=message(row["event_type"], row["node_id"], data, None),
        taken_from=data.get("from") or data.get("worker_id"),
        taken_by=data.get("to"),
    )


def _event(row: dict[str, Any]) -> OrchestratorEvent:
    return OrchestratorEvent(
        owner_id=row["owner_id"],
        timestamp=row["created_at"],
        event_type=row["event_type"],
        status=row["event_status"],
        message=message(row["event_type"], None, row["event_data"], row["error_message"]),
        data=row["event_data"],
    )


def _uptime(line: OrchestratorSummary) -> float:
    """Until its last heartbeat: of one that is gone nothing more is known."""
    return round(max(0.0, (line.heartbeat_at - line.started_at).total_seconds()), 1)


def _scanned_at(line: OrchestratorSummary) -> datetime | None:
    age = line.stats.get("orphan_scan_age_seconds")
    return None if age is None else line.heartbeat_at - timedelta(seconds=age)
