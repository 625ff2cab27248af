"""Jobs in which nothing moves: a warning after minutes, and the end after days if nothing is left that could move.

A job may wait for as long as it takes: for people, for a child job, for its time, for a retry or a worker. The latter
three are reported, with what they wait for. Only a job that waits for workers and nothing else fails after a while, if
the settings give it one.
"""

from __future__ import annotations

from rmhdag.engine.node_types import BEHAVIOURS
from rmhdag.models.events import EventStatus, EventType
from rmhdag.orchestrator.context import Context
from rmhdag.store import poison, processes, upkeep

WAITING_IS_FINE = tuple(node_type for node_type, behaviour in BEHAVIOURS.items() if behaviour.waits_for_others)
# Looked at in one round; the next one goes on behind them, or those that wait for people would hide all others.
BITE = 100


def run_once(context: Context) -> int:
    settings = context.settings
    silent = upkeep.jobs_without_progress(
        context.conn, context.me, settings.stall_seconds, after=context.silent_up_to, limit=BITE
    )
    context.silent_up_to = silent[-1].job_id if len(silent) == BITE else ""
    stalled = [job for job in silent if not _waits_for_others(context, job.job_id)]
    reasons = upkeep.what_jobs_wait_for(context.conn, [job.job_id for job in stalled])
    for job in stalled:
        seconds = job.silence.total_seconds()
        cause = reasons.get(job.job_id)
        reason = None if cause is None else cause.waits_for
        message = None
        if cause is None and seconds >= settings.stuck_seconds:
            message = (
                f"no progress for {seconds / 3600:.0f} hours, and none is possible any more (RMHDAG_STUCK_JOB_DAYS)"
            )
        elif cause is not None and cause.only_for_workers and _is_too_long(seconds, settings.worker_wait_seconds):
            message = f"it waited for {cause.waits_for} for {seconds / 3600:.0f} hours (RMHDAG_WORKER_WAIT_DAYS)"
        if message is not None:
            poison.bury_job(context.conn, context.me, job.job_id, job.owner_epoch, job.namespace, message)
        elif context.warned.get(job.job_id) != job.changed_at:
            context.warned[job.job_id] = job.changed_at
            processes.record_orchestrator_event(
                context.conn,
                context.me,
                EventType.ORCHESTRATOR_STALL,
                EventStatus.WARNING,
                {"job_id": job.job_id, "silent_seconds": round(seconds), "waits_for": reason or "nothing"},
            )
    context.still_silent.update(job.job_id for job in stalled)
    if not context.silent_up_to:
        context.warned = {job_id: at for job_id, at in context.warned.items() if job_id in context.still_silent}
        context.still_silent.clear()
    return len(stalled)


def _is_too_long(seconds: float, limit: float | None) -> bool:
    return limit is not None and seconds >= limit


def _waits_for_others(context: Context, job_id: str) -> bool:
    nodes = context.definition_of(job_id).nodes
    waits = [node_id for node_id, status in upkeep.open_nodes(context.conn, job_id) if status != "completed"]
    return bool(waits) and all(nodes[node_id].type in WAITING_IS_FINE for node_id in waits)
