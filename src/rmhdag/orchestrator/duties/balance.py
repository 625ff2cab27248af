"""Jobs are spread evenly: whoever has clearly more than its share gives some back, for the others to claim."""

from __future__ import annotations

from math import ceil

from rmhdag.orchestrator.context import Context
from rmhdag.store import upkeep

SLACK = 10


def run_once(context: Context) -> int:
    owned = upkeep.jobs_per_owner(context.conn)
    if len(owned) < 2 or context.me not in owned:
        context.share = None
        return 0
    share = ceil(sum(owned.values()) / len(owned))
    context.share = share + SLACK
    context.owned_count = owned[context.me]
    surplus = owned[context.me] - share
    if surplus <= max(SLACK, share // 5):
        return 0
    return len(upkeep.release_some_jobs(context.conn, context.me, surplus))
