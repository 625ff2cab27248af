"""Claim jobs without an owner: new submissions, and jobs that a stopping orchestrator handed over."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import jobs

# Small bites, so that several orchestrators share a burst of submissions.
BITE = 50


def run_once(context: Context) -> int:
    if context.share is not None and context.owned_count > context.share:
        context.owned_count = 0  # the others had this round to claim; in the next one it is not left lying
        return 0
    # The next bite of a burst begins where the last one ended, and not at the rows of all that were claimed before.
    claimed = jobs.claim_unowned_jobs(context.conn, context.me, BITE, context.claimed_up_to)
    if len(claimed) < BITE and context.claimed_up_to:
        claimed += jobs.claim_unowned_jobs(context.conn, context.me, BITE - len(claimed))
    context.claimed_up_to = max(job.job_id for job in claimed) if len(claimed) == BITE else ""
    context.take_over_claimed(claimed)
    return len(claimed)
