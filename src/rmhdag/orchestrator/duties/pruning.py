"""Finished jobs go when they are old enough, a bite at a time; events and logs go by whole days."""

from __future__ import annotations

from rmhdag.orchestrator.context import Context
from rmhdag.store import partitions, upkeep

BITE = 200


def run_once(context: Context) -> int:
    partitions.ensure_partitions(context.conn, context.schema)
    partitions.drop_partitions_before(context.conn, context.schema, context.settings.retention_days)
    return upkeep.prune_jobs(context.conn, context.settings.retention_days, BITE)
