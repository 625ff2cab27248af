"""Finished jobs are summed up for metrics, a bite at a time and some time after their end."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import errors

from rmhdag.store import rollups
from rmhdag.store.connection import Conn

LARGEST_BITE = 2_000
BITES_AT_ONCE = 5


@dataclass
class BiteSize:
    """Jobs summed up at a time; fewer where they are large."""

    jobs: int = 500


def run_once(conn: Conn, size: BiteSize, settling_seconds: float = rollups.SETTLING_SECONDS) -> int:
    summed = 0
    for namespace in rollups.namespaces(conn):
        for _ in range(BITES_AT_ONCE):
            try:
                progress = rollups.add_slice_to_rollups(conn, namespace, size.jobs, settling_seconds)
            except errors.QueryCanceled:
                # Jobs of 100,000 children: fewer of them at a time, one at least.
                if size.jobs == 1:
                    raise
                size.jobs = max(1, size.jobs // 8)
                break
            summed += progress
            if progress < size.jobs:
                break
            size.jobs = min(LARGEST_BITE, size.jobs * 2)
    return summed
