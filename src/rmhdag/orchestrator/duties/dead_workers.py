"""Notify the owners of tasks whose worker has stopped sending heartbeats."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import processes, tasks


def run_once(context: Context) -> int:
    silent = context.workers_seen.observe(processes.worker_heartbeats(context.conn), context.monotonic())
    gone = processes.workers_without_heartbeat(context.conn)
    dead = [*silent, *gone]
    if not dead:
        return 0
    with context.conn.transaction():
        # The row goes first: a worker that wakes up finds itself unregistered before it can claim again.
        processes.remove_workers(context.conn, dead)
        return tasks.report_lost_tasks(context.conn, dead)
