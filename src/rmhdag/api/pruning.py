"""Deleting what is past its retention."""

from __future__ import annotations

from rmhdag.models.api.retention import Pruned
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.figures import Figures
from rmhdag.orchestrator.retention import Retention
from rmhdag.store.connection import Conn
from rmhdag.store.retention import RetentionDays


def prune(conn: Conn, schema: str, days: RetentionDays, seconds: float) -> Pruned:
    settings = OrchestratorSettings(
        retention_days=days.jobs, retention_history_days=days.history, retention_payload_days=days.payloads
    )
    deleted, has_more = Retention(schema, settings, Figures()).run_for(conn, seconds)
    return Pruned(deleted=dict(sorted(deleted.items())), has_more=has_more)
