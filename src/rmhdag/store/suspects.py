"""Suspects: tasks during whose runs two workers were lost. They are not among those that are claimed in batches."""

from __future__ import annotations

from collections.abc import Sequence

from rmhdag.models.leases import ClaimedTask
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries
from rmhdag.store.tasks import as_keys, full_namespaces

SQL = load_queries(__file__)


def suspect_waits(
    conn: Conn, queues: Sequence[str], namespace: str | None = None, handlers: frozenset[str] | None = None
) -> bool:
    """One that a worker with these handlers can run, or with any."""
    parameters = {"queues": list(queues), "namespace": namespace, "handlers": as_keys(handlers)}
    row = conn.execute(SQL["suspect_waits"], parameters, prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_suspect(
    conn: Conn,
    worker_id: str,
    queues: Sequence[str],
    namespace: str | None = None,
    handlers: frozenset[str] | None = None,
) -> ClaimedTask | None:
    """Lease the one that has waited longest, unless half of the workers have one already.

    Not of a namespace that has as many tasks running as it may have.
    """
    full = [(queue, name) for queue in queues for name in full_namespaces(conn, worker_id, queue, namespace)]
    parameters = {
        "worker_id": worker_id,
        "queues": list(queues),
        "namespace": namespace,
        "handlers": as_keys(handlers),
        "full_queues": [queue for queue, _ in full],
        "full_namespaces": [name for _, name in full],
    }
    row = conn.execute(SQL["claim_suspect"], parameters).fetchone()
    return None if row is None else ClaimedTask(*row)
