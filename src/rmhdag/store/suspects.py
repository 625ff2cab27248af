"""Suspects: tasks during whose runs two workers were lost. They are not among those that are claimed in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from rmhdag.models.leases import ClaimedTask
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries
from rmhdag.store.tasks import as_keys

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]


def suspect_waits(
    conn: Conn, queues: Sequence[str], namespace: str | None = None, handlers: frozenset[str] | None = None
) -> bool:
    """One that a worker with these handlers can run, or with any."""
    given = {"queues": list(queues), "namespace": namespace, "handlers": as_keys(handlers)}
    row = conn.execute(SQL["suspect_waits"], given, prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_suspect(
    conn: Conn,
    worker_id: str,
    queues: Sequence[str],
    namespace: str | None = None,
    handlers: frozenset[str] | None = None,
) -> ClaimedTask | None:
    """Lease the one that has waited longest, unless half of the workers have one already."""
    given = {
        "worker_id": worker_id,
        "queues": list(queues),
        "namespace": namespace,
        "handlers": as_keys(handlers),
    }
    row = conn.execute(SQL["claim_suspect"], given).fetchone()
    return None if row is None else ClaimedTask(*row)
