"""Take jobs that nobody owns: fresh submissions, and what a leaving orchestrator handed over."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import jobs

# Small bites, so that several orchestrators share a burst of submissions.
BITE = 50


def run_once(context: Context) -> int:
    claimed = jobs.claim_unowned_jobs(context.conn, context.me, BITE)
    context.take_over([job.job_id for job in claimed])
    return len(claimed)
