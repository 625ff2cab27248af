"""Tasks that were given back with a delay come into the order again when they are due."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import tasks


def run_once(context: Context) -> int:
    return tasks.offer_due_tasks(context.conn)
