"""Show people which results have been handled, in quiet moments: the flag costs a new version of each row.

Nothing depends on it. Jobs are noted in memory; those of a busy or a killed orchestrator may stay unmarked.
"""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import inbox, upkeep

JOBS = 100
BITE = 2_000


def run_once(context: Context) -> int:
    noted = context.advance.handled_jobs
    if not noted or inbox.read_inbox(context.conn, context.me, 0, 1)[1]:
        return 0
    jobs = [noted.pop() for _ in range(min(JOBS, len(noted)))]
    marked = upkeep.mark_processed_results(context.conn, jobs, BITE)
    if marked == BITE:
        noted.update(jobs)
    return marked
