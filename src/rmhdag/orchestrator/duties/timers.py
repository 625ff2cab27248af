"""Retries that are due and deadlines that have passed, for the jobs I own."""

from __future__ import annotations

from rmhdag.engine.inputs import Timer, TimerDue
from rmhdag.engine.tasks import TIMEOUT_GRACE_SECONDS
from rmhdag.orchestrator.context import Context
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.store import inbox

LIMIT = 1_000


def run_once(context: Context) -> int:
    """A retry that is late harms nobody; a deadline that comes too early does.

    After an outage workers have results to report that were ready in time. They get as long as it takes to find a
    worker dead, and the grace that every deadline has.
    """
    # What is given again while it waits is held once; more than the line has room for would only be read in vain.
    room = min(LIMIT, context.advance.local.room_for_timers)
    if not room:
        return 0
    settings = context.settings
    may_time_out = context.undisturbed_seconds() >= settings.ttl_seconds + TIMEOUT_GRACE_SECONDS
    due = inbox.due_timers(context.conn, context.me, room, deadlines=may_time_out)
    context.advance.give(
        [LocalInput(job_id, TimerDue(node_id, attempt, Timer(timer))) for job_id, node_id, attempt, timer in due]
    )
    return len(due)
