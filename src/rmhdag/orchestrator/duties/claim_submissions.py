"""Take jobs that nobody owns: fresh submissions, and what a leaving orchestrator handed over."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import jobs

# Small bites, so that several orchestrators share a burst of submissions.
BITE = 50


def run_once(context: Context) -> int:
    if context.share is not None and context.owned_count > context.share:
        context.owned_count = 0  # the others had this round to claim; in the next one it is not left lying
        return 0
    claimed = jobs.claim_unowned_jobs(context.conn, context.me, BITE)
    context.take_over([job.job_id for job in claimed])
    return len(claimed)
