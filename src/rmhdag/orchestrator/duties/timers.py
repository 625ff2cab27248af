"""Retries that are due and time-outs that have passed, for the jobs I own."""

from __future__ import annotations

from rmhdag.engine.inputs import Timer, TimerDue
from rmhdag.orchestrator.context import Context
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.store import inbox

LIMIT = 1_000


def run_once(context: Context) -> int:
    # What is given again while it waits is held once; more than the line has room for would only be read in vain.
    room = min(LIMIT, context.advance.local.room_for_timers)
    if not room:
        return 0
    due = inbox.due_timers(context.conn, context.me, room)
    context.advance.give(
        [LocalInput(job_id, TimerDue(node_id, attempt, Timer(timer))) for job_id, node_id, attempt, timer in due]
    )
    return len(due)
