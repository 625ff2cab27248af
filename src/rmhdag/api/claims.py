"""Claims for workers over HTTP: of one namespace, bounded by what the worker said it can take."""

from __future__ import annotations

from collections.abc import Sequence

from rmhdag.messaging.claims import ClaimMarks
from rmhdag.models.leases import ClaimedTask
from rmhdag.store import tasks
from rmhdag.store.connection import Conn

# What a worker may hold beyond its slots: a shared child's light tasks, and what is sent ahead to each child.
LIGHT_TASKS = 50
TASKS_AHEAD = 32
MOST_NAMESPACES = 1_000


class Claims:
    """One per process; marks that keep claims cheap are kept per namespace."""

    def __init__(self) -> None:
        self._marks: dict[str, ClaimMarks] = {}

    def claim(
        self,
        conn: Conn,
        worker_id: str,
        slots: int,
        namespace: str,
        queues: Sequence[str],
        limit: int,
        handlers: frozenset[str] | None = None,
    ) -> list[ClaimedTask]:
        if len(self._marks) > MOST_NAMESPACES:
            self._marks.clear()
        marks = self._marks.setdefault(namespace, ClaimMarks(namespace))
        may_hold = LIGHT_TASKS + slots * (1 + TASKS_AHEAD)
        room = min(limit, may_hold - tasks.count_held(conn, worker_id))
        leases: list[ClaimedTask] = []
        for queue in queues:
            if room <= 0:
                break
            claimed = marks.claim(conn, worker_id, queue, room, handlers)
            room -= len(claimed)
            leases += claimed
        return leases
