"""Retention as one orchestrator after the other does it, without waiting between its pieces of work."""

from __future__ import annotations

from time import monotonic
from typing import Any

import psycopg

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.figures import Figures
from rmhdag.orchestrator.retention import Retention
from tests.orchestrator.platform import Platform


def retention_of(settings: OrchestratorSettings | None = None) -> tuple[Retention, Figures]:
    figures = Figures()
    return Retention("dagapp", settings or OrchestratorSettings(), figures), figures


def finish_passes(conn: psycopg.Connection[Any], retention: Retention) -> int:
    """All that is due by now; returns the number of pieces."""
    pieces = 0
    while min(chore.due for chore in retention.chores) <= monotonic():
        retention.run_once(conn)
        pieces += 1
    return pieces


def prune(platform: Platform, **settings: Any) -> dict[str, int]:
    """Rows deleted, by table. What a pass leaves because of what it has just deleted goes with the second one."""
    retention, figures = retention_of(OrchestratorSettings(**settings))
    finish_passes(platform.conn, retention)
    for chore in retention.chores:
        chore.due = 0.0
    finish_passes(platform.conn, retention)
    deleted: dict[str, int] = figures.tell()["pruned_rows"]
    return {table: rows for table, rows in deleted.items() if rows}
