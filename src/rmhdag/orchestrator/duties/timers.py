"""Retries that are due and time-outs that have passed, for the jobs I own."""

from __future__ import annotations

from rmhdag.engine.inputs import Timer, TimerDue
from rmhdag.orchestrator.advance import LocalInput
from rmhdag.orchestrator.context import Context
from rmhdag.store import inbox

LIMIT = 1_000


def run_once(context: Context) -> int:
    due = inbox.due_timers(context.conn, context.me, LIMIT)
    context.advance.give(
        [LocalInput(job_id, TimerDue(node_id, attempt, Timer(timer))) for job_id, node_id, attempt, timer in due]
    )
    return len(due)
