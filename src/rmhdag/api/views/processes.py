"""Workers, orchestrators, handlers and queues as they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from rmhdag.api.views.orchestrator_figures import without_secrets
from rmhdag.models.api.processes import (
    HandlerList,
    HandlerSummary,
    OrchestratorList,
    OrchestratorSummary,
    WorkerList,
    WorkerSummary,
)
from rmhdag.models.api.queues import QueueStatus, QueueStatusList
from rmhdag.orchestrator.registrations import known_handlers
from rmhdag.store import views
from rmhdag.workflow import shipped_handlers

Conn = psycopg.Connection[Any]


def workers(conn: Conn, alive_seconds: float, namespace: str | None = None) -> WorkerList:
    """Those that serve the namespace; None: all."""
    found = views.workers(conn, namespace)
    return WorkerList(
        workers=[WorkerSummary(alive=line.silent_seconds < alive_seconds, **line._asdict()) for line in found]
    )


def orchestrators(conn: Conn, alive_seconds: float, namespace: str | None = None) -> OrchestratorList:
    """As the namespace sees them; None: with all jobs and all figures."""
    found = views.orchestrators(conn, namespace)
    if namespace is not None:
        found = [without_secrets(line) for line in found]
    return OrchestratorList(
        orchestrators=[
            OrchestratorSummary(alive=line.silent_seconds < alive_seconds, **line._asdict()) for line in found
        ]
    )


def handlers(conn: Conn, namespace: str) -> HandlerList:
    """What workers offer, and what comes with rmhdag whether or not a worker has its libraries."""
    catalogue = known_handlers(conn, namespace)
    offered = {
        line.handler: HandlerSummary(
            handler=line.handler,
            aliases=line.aliases,
            queue=catalogue.queue_of(line.handler),
            offered=True,
            version=line.version,
            description=line.description,
            params_schema=line.params_schema,
            output_schema=line.output_schema,
        )
        for line in views.handler_lines(conn, namespace)
    }
    shipped = {
        entry.name: HandlerSummary(
            handler=entry.name,
            aliases=list(entry.aliases),
            queue=entry.queue,
            offered=False,
            version=None,
            description=entry.description,
            params_schema=dict(entry.params_schema),
            output_schema=dict(entry.output_schema),
        )
        for entry in shipped_handlers().entries()
    }
    return HandlerList(handlers=[summary for _, summary in sorted((shipped | offered).items())])


def queues(conn: Conn, namespace: str, configured: Iterable[str], alive_seconds: float) -> QueueStatusList:
    lines = views.with_configured(views.queues(conn, namespace, alive_seconds), configured)
    return QueueStatusList(queues=[QueueStatus(attention=_attention(line), **line._asdict()) for line in lines])


def _attention(line: views.QueueLine) -> str | None:
    if line.waiting and not line.workers:
        return f"Nobody serves {line.queue}: `rmhdag worker --queue {line.queue}` does."
    if line.dead_letters:
        many = "1 dead letter waits" if line.dead_letters == 1 else f"{line.dead_letters} dead letters wait"
        return f"{many} for a decision."
    return None
