"""What retention would delete, and deleting it."""

from __future__ import annotations

from typing import Any

import psycopg

from rmhdag.models.api.retention import KeptJobs, Pruned, PruneLine, PrunePreview
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.figures import Figures
from rmhdag.orchestrator.retention import Retention
from rmhdag.store.retention import RetentionDays
from rmhdag.store.retention_preview import preview

Conn = psycopg.Connection[Any]


def read_preview(conn: Conn, days: RetentionDays) -> PrunePreview:
    found = preview(conn, days)
    return PrunePreview(
        tables=[PruneLine(**line._asdict() | {"setting": f"RMHDAG_{line.setting.upper()}"}) for line in found.tables],
        kept=[KeptJobs(**line._asdict()) for line in found.kept],
    )


def prune(conn: Conn, schema: str, days: RetentionDays, seconds: float) -> Pruned:
    settings = OrchestratorSettings(
        retention_days=days.jobs, retention_history_days=days.history, retention_payload_days=days.payloads
    )
    deleted, has_more = Retention(schema, settings, Figures()).run_for(conn, seconds)
    return Pruned(deleted=dict(sorted(deleted.items())), has_more=has_more)
