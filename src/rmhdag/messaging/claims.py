"""Claims that stay cheap: from a low-water mark on, once the queue is full of rows that are gone.

Rows of tasks that are gone stay in the index while some old snapshot may still see them. Walking past them at every
claim halved the throughput after 100,000 tasks; so then about one claim per second walks the whole queue, and the
others begin where the one before it found its first task. Not where the last one did: a job that begins takes its place
behind the last result that its orchestrator has seen, and that is a moment ago.

A worker that does not have all handlers of a queue would walk past the tasks of others at every claim, however many
they are. While such tasks wait, it claims by handler, which reads another index; that takes a probe for each of its
handlers, so it is not done otherwise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from rmhdag.messaging.pace import whole_pause_seconds
from rmhdag.models.leases import ClaimedTask
from rmhdag.store.tasks import claim_tasks, dead_queue_rows, other_handler_waits

MANY_DEAD_ROWS = 20_000
COUNT_EVERY_SECONDS = 5.0
# Of HTTP workers in one process, each with handlers of its own.
MOST_PLACES = 1_000


@dataclass(slots=True)
class _Place:
    """A queue, as workers with the same handlers see it."""

    mark: int = 0
    newest: int = 0
    marked_at: float = 0.0
    looked_at: float = 0.0
    is_mixed: bool = False


class ClaimMarks:
    """One mark per queue and set of handlers, for claims of all namespaces or of one."""

    def __init__(self, namespace: str | None = None) -> None:
        self._namespace = namespace
        self._is_crowded = False
        self._counted_at = 0.0
        self._places: dict[tuple[str, frozenset[str] | None], _Place] = {}
        self._whole_seconds = 0.0

    def claim(
        self,
        conn: psycopg.Connection[Any],
        worker_id: str,
        queue: str,
        limit: int,
        handlers: frozenset[str] | None = None,
    ) -> list[ClaimedTask]:
        """Tasks of these handlers; without them, of any."""
        now = time.monotonic()
        if now - self._counted_at > COUNT_EVERY_SECONDS:
            self._counted_at = now
            self._is_crowded = dead_queue_rows(conn) > MANY_DEAD_ROWS
        if len(self._places) > MOST_PLACES:
            self._places.clear()
        place = self._places.setdefault((queue, handlers), _Place())
        if handlers is not None and now - place.looked_at > COUNT_EVERY_SECONDS:
            place.looked_at = now
            place.is_mixed = other_handler_waits(conn, queue, handlers)
        is_whole = not self._is_crowded or now - place.marked_at >= whole_pause_seconds(self._whole_seconds)
        began = time.monotonic()
        claimed = claim_tasks(
            conn,
            worker_id,
            queue,
            limit,
            0 if is_whole else place.mark,
            self._namespace,
            handlers,
            by_handler=place.is_mixed,
        )
        if is_whole:
            self._whole_seconds = time.monotonic() - began
            if claimed:
                place.mark, place.newest, place.marked_at = place.newest, claimed[0].order_key, now
        return claimed
