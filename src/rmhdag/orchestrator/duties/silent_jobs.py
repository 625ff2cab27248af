"""Jobs in which nothing moves: a warning after minutes, the end after a day. Who waits for people is left alone."""

from __future__ import annotations

from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import NodeType
from rmhdag.orchestrator.context import Context
from rmhdag.store import poison, processes, upkeep

WAITING_IS_FINE = (NodeType.APPROVAL, NodeType.WORKFLOW)


def run_once(context: Context) -> int:
    silent = upkeep.jobs_without_progress(context.conn, context.me, context.settings.stall_seconds)
    stalled = [job for job in silent if not _only_waits(context, job.job_id)]
    for job in stalled:
        seconds = job.silence.total_seconds()
        if seconds >= context.settings.zombie_seconds:
            message = f"nothing moved for {seconds / 3600:.0f} hours"
            poison.bury_job(context.conn, context.me, job.job_id, job.owner_epoch, job.namespace, message)
        elif (job.job_id, job.changed_at) not in context.warned:
            context.warned.add((job.job_id, job.changed_at))
            processes.record_orchestrator_event(
                context.conn,
                context.me,
                EventType.ORCHESTRATOR_STALL,
                EventStatus.WARNING,
                {"job_id": job.job_id, "silent_seconds": round(seconds)},
            )
    context.warned &= {(job.job_id, job.changed_at) for job in silent}
    return len(stalled)


def _only_waits(context: Context, job_id: str) -> bool:
    nodes = context.definition_of(job_id).nodes
    waits = [node_id for node_id, status in upkeep.open_nodes(context.conn, job_id) if status != "completed"]
    return bool(waits) and all(nodes[node_id].type in WAITING_IS_FINE for node_id in waits)
