"""Inbox rows addressed to another owner: written while a job changed its owner, or for a job that has ended."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import jobs


def run_once(context: Context) -> int:
    adopted = jobs.adopt_strays(context.conn, context.me)
    jobs.discard_inbox_of_ended_jobs(context.conn, context.me)
    if adopted:
        context.advance.wake()
    return adopted
