"""Suspects: tasks during whose runs two workers were lost. They are not among those that are claimed in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries
from rmhdag.store.tasks import ClaimedTask

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]


def suspect_waits(conn: Conn, queues: Sequence[str]) -> bool:
    row = conn.execute(SQL["suspect_waits"], {"queues": list(queues)}, prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_suspect(conn: Conn, worker_id: str, queues: Sequence[str]) -> ClaimedTask | None:
    """Lease the one that has waited longest, unless half of the workers have one already."""
    given = {"worker_id": worker_id, "queues": list(queues)}
    row = conn.execute(SQL["claim_suspect"], given).fetchone()
    return None if row is None else ClaimedTask(*row)
