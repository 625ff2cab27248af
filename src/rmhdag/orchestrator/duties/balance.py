"""Jobs are spread evenly: an orchestrator with clearly more than its share gives some back, for the others to claim.

Only jobs that have not moved for a while: one that is moved while it is busy waits a second for its new owner.
"""

from __future__ import annotations

from math import ceil

from rmhdag.orchestrator.context import Context
from rmhdag.store import upkeep

SLACK = 10
QUIET_SECONDS = 2.0


def run_once(context: Context) -> int:
    owned = upkeep.jobs_per_owner(context.conn)
    if len(owned) < 2 or context.me not in owned:
        context.share = None
        return 0
    share = ceil(sum(owned.values()) / len(owned))
    context.share = share + SLACK
    context.owned_count = owned[context.me]
    surplus = owned[context.me] - share
    # Half of a share: with less, jobs would move to and fro between orchestrators that are about equal.
    if surplus <= max(SLACK, share // 2):
        return 0
    busy = context.advance.moved_since(context.monotonic() - QUIET_SECONDS)
    released = upkeep.release_some_jobs(context.conn, context.me, surplus, busy)
    context.advance.let_go(released)
    return len(released)
