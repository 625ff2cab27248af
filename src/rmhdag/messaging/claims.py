"""Keeps claims cheap: they start at a low-water mark once the queue's index is full of dead rows.

Rows of deleted tasks stay in the index while an old snapshot may still see them. Scanning them at every claim halved
the throughput after 100,000 tasks; so about one claim per second scans the whole queue, and the others start where the
scan before last found its first task. Not where the last scan did: a new job takes its place behind the last result
that its orchestrator has seen, which is a moment old.

A worker that lacks some handlers of a queue would scan the tasks of other workers at every claim, however many there
are. While such tasks wait, it claims by handler, which reads another index; that takes a probe per handler, so it is
not the default.

While some namespace is near a limit, claims of all namespaces are made one by one; this is checked once a second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rmhdag.messaging.pace import whole_pause_seconds
from rmhdag.models.leases import ClaimedTask
from rmhdag.store.connection import Conn
from rmhdag.store.tasks import claim_tasks, dead_queue_rows, has_watched_namespaces, other_handler_waits

MANY_DEAD_ROWS = 20_000
COUNT_EVERY_SECONDS = 5.0
WATCH_EVERY_SECONDS = 1.0
# Of HTTP workers in one API process, each with its own handlers.
MOST_PLACES = 1_000


@dataclass(slots=True)
class _Place:
    """A queue as seen by workers with the same handlers."""

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
        self._one_by_one = False
        self._watched_at = 0.0
        self._places: dict[tuple[str, frozenset[str] | None], _Place] = {}
        self._whole_seconds = 0.0

    def claim(
        self,
        conn: Conn,
        worker_id: str,
        queue: str,
        limit: int,
        handlers: frozenset[str] | None = None,
    ) -> list[ClaimedTask]:
        """Claim tasks of these handlers; None means of any handler."""
        now = time.monotonic()
        if now - self._counted_at > COUNT_EVERY_SECONDS:
            self._counted_at = now
            self._is_crowded = dead_queue_rows(conn) > MANY_DEAD_ROWS
        if self._namespace is None and now - self._watched_at > WATCH_EVERY_SECONDS:
            self._watched_at = now
            self._one_by_one = has_watched_namespaces(conn)
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
            one_by_one=self._one_by_one,
        )
        if is_whole:
            self._whole_seconds = time.monotonic() - began
            if claimed:
                place.mark, place.newest, place.marked_at = place.newest, claimed[0].order_key, now
        return claimed
