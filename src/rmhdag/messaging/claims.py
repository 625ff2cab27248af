"""Claims that stay cheap: from a low-water mark on, once the queue is full of rows that are gone.

Rows of tasks that are gone stay in the index while some old snapshot may still see them. Walking past them at every
claim halved the throughput after 100,000 tasks; so then about one claim per second walks the whole queue, and the
others begin where the one before it found its first task. Not where the last one did: a job that begins takes its place
behind the last result that its orchestrator has seen, and that is a moment ago.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg

from rmhdag.messaging.pace import whole_pause_seconds
from rmhdag.models.leases import ClaimedTask
from rmhdag.store.tasks import claim_tasks, dead_queue_rows

MANY_DEAD_ROWS = 20_000
COUNT_EVERY_SECONDS = 5.0


class ClaimMarks:
    """One mark per queue, for claims of all namespaces or of one."""

    def __init__(self, namespace: str | None = None) -> None:
        self._namespace = namespace
        self._is_crowded = False
        self._counted_at = 0.0
        self._marks: dict[str, tuple[int, int, float]] = {}
        self._whole_seconds = 0.0

    def claim(self, conn: psycopg.Connection[Any], worker_id: str, queue: str, limit: int) -> list[ClaimedTask]:
        now = time.monotonic()
        if now - self._counted_at > COUNT_EVERY_SECONDS:
            self._counted_at = now
            self._is_crowded = dead_queue_rows(conn) > MANY_DEAD_ROWS
        mark, newest, marked_at = self._marks.get(queue, (0, 0, 0.0))
        if self._is_crowded and now - marked_at < whole_pause_seconds(self._whole_seconds):
            return claim_tasks(conn, worker_id, queue, limit, mark, self._namespace)
        claimed = claim_tasks(conn, worker_id, queue, limit, namespace=self._namespace)
        self._whole_seconds = time.monotonic() - now
        if claimed:
            self._marks[queue] = (newest, claimed[0].order_key, now)
        return claimed
