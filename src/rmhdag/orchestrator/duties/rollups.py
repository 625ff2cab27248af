"""Finished jobs are summed up for metrics, a bite at a time and some time after their end."""

from __future__ import annotations

from psycopg import errors

from rmhdag.orchestrator.context import Context
from rmhdag.store import rollups

LARGEST_BITE = 2_000
BITES_AT_ONCE = 5


def run_once(context: Context, settling_seconds: float = rollups.SETTLING_SECONDS) -> int:
    summed = 0
    for namespace in rollups.namespaces(context.conn):
        for _ in range(BITES_AT_ONCE):
            try:
                found = rollups.add_slice_to_rollups(context.conn, namespace, context.rollup_bite, settling_seconds)
            except errors.QueryCanceled:
                # Jobs of 100,000 children: fewer of them at a time, one at least.
                if context.rollup_bite == 1:
                    raise
                context.rollup_bite = max(1, context.rollup_bite // 8)
                break
            summed += found
            if found < context.rollup_bite:
                break
            context.rollup_bite = min(LARGEST_BITE, context.rollup_bite * 2)
    return summed
