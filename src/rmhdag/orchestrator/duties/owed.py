"""Jobs that make no progress although their rows show that something is owed: they are loaded again, and reported.

Nothing should ever be found here. What a batch could not do is given again at once; this is the net below that.
"""

from __future__ import annotations

from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import NodeType
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.context import Context
from rmhdag.store import processes, upkeep

log = get_logger(__name__)
LIMIT = 500


def run_once(context: Context) -> int:
    advance = context.advance
    seconds = context.settings.owed_seconds
    reasons = dict.fromkeys(upkeep.jobs_not_begun(context.conn, context.me, seconds, LIMIT), "it never began")
    for job_id, node_id in upkeep.unfinished_fans(context.conn, context.me, seconds, LIMIT):
        if (job_id, node_id) not in advance.fan_ins and _is_fan(context, job_id, node_id):
            reasons.setdefault(job_id, f"no process continues {node_id}")
    # A job that moves, or is in line, is served. Seen twice: at the first look it may be in the batch under way.
    served = set(advance.moved_since(context.monotonic() - seconds))
    unserved = {
        job_id: why for job_id, why in reasons.items() if job_id not in served and not advance.attends_to(job_id)
    }
    owed = {job_id: why for job_id, why in unserved.items() if job_id in context.owed_before}
    context.owed_before = set(unserved)
    if owed:
        for job_id, why in owed.items():
            log.warning("job_was_owed_something", job_id=job_id, why=why)
        first = next(iter(owed))
        processes.record_orchestrator_event(
            context.conn,
            context.me,
            EventType.ORCHESTRATOR_STALL,
            EventStatus.WARNING,
            {"owed_jobs": len(owed), "job_id": first, "why": owed[first]},
        )
        advance.reload(owed)
    return len(owed)


def _is_fan(context: Context, job_id: str, node_id: str) -> bool:
    """A task may be ready for long, if its queue has no room."""
    node = context.definition_of(job_id).nodes.get(node_id)
    return node is not None and node.type in (NodeType.FAN_IN, NodeType.FAN_OUT)
