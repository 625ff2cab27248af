"""Take over the jobs of orchestrators that have gone silent, each round a fair share of them."""

from __future__ import annotations

from math import ceil

from rmhdag.orchestrator.context import Context
from rmhdag.store import jobs, processes


def run_once(context: Context) -> int:
    heartbeats = processes.orchestrator_heartbeats(context.conn)
    if context.me not in heartbeats:
        return 0
    silent = context.orchestrators_seen.observe(heartbeats, context.monotonic())
    silent.pop(context.me, None)
    gone = processes.owners_without_heartbeat(context.conn)
    dead = [*silent, *(owner for owner in gone if owner not in silent)]
    if not dead:
        return 0
    orphans = processes.count_live_jobs(context.conn, dead)
    live = max(1, len(heartbeats) - len(silent))
    claimed = jobs.claim_orphaned_jobs(context.conn, context.me, dead, ceil(orphans / live)) if orphans else []
    for job in claimed:
        context.note_reclaimed(job.job_id, str(job.from_owner), silent.get(str(job.from_owner), 0.0))
    context.take_over_claimed(claimed)
    if len(claimed) >= orphans:
        processes.remove_orchestrators(context.conn, list(silent))
    return len(claimed)
