"""Long queues make every job's window smaller, short ones give it back."""

from __future__ import annotations

from rmhdag.engine.slots import DEFAULT_WINDOW
from rmhdag.models.events import EventStatus, EventType
from rmhdag.orchestrator.context import Context
from rmhdag.store import processes, tasks

SMALLEST_WINDOW = 10


def run_once(context: Context) -> int:
    limit = context.settings.backpressure_depth
    changed = 0
    depths = {depth.queue: depth.waiting for depth in tasks.queue_depths(context.conn)}
    for queue in depths.keys() | context.advance.windows.keys():
        waiting = depths.get(queue, 0)
        window = DEFAULT_WINDOW if waiting <= limit else max(SMALLEST_WINDOW, DEFAULT_WINDOW * limit // (waiting * 2))
        before = context.advance.windows.get(queue, DEFAULT_WINDOW)
        # Only a change that matters is worth telling every job of.
        if window == before or (window != DEFAULT_WINDOW and before / 2 < window < before * 2):
            continue
        context.advance.set_window(queue, window)
        changed += 1
        processes.record_orchestrator_event(
            context.conn,
            context.me,
            EventType.ORCHESTRATOR_BACKPRESSURE,
            EventStatus.WARNING if window < before else EventStatus.INFO,
            {"queue": queue, "waiting": waiting, "window": window},
        )
    return changed
