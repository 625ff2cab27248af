"""How many children of each fan-out are in which state, at a bounded cost for any number of children and callers.

Counting 100,000 children takes the database some 40 ms: no index may name `status`, for that would cost every task. So
a count of many is shown again for a while, in proportion to its cost, and one of a job that has ended for good.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.views.memory import Memory

SQL = load_queries(__file__)
Counts = Mapping[str, Mapping[str, int]]


class Counted(NamedTuple):
    counts: Counts
    good_until: float


class ChildCounts:
    """At most one part in `pause_factor` of a connection's time goes into counting the same children, and no answer is
    older than `longest_pause_seconds`. Fewer than `many` are counted for every caller.
    """

    def __init__(self, *, many: int = 10_000, pause_factor: float = 20, longest_pause_seconds: float = 2.0) -> None:
        self._many = many
        self._pause_factor = pause_factor
        self._longest_pause_seconds = longest_pause_seconds
        self._counted: Memory[tuple[str, bool], Counted] = Memory(1_000)
        self._locks = tuple(threading.Lock() for _ in range(64))

    def __call__(self, conn: Conn, job_id: str, *, has_ended: bool) -> Counts:
        """fan-out → status → children. `has_ended`: the job was seen to have ended, so nothing will change."""
        with self._locks[hash(job_id) % len(self._locks)]:
            counted = self._counted.recall((job_id, has_ended))
            if counted is not None and time.monotonic() < counted.good_until:
                return counted.counts
            began = time.monotonic()
            counts = count_children(conn, job_id)
            if sum(sum(by_status.values()) for by_status in counts.values()) >= self._many:
                took = time.monotonic() - began
                pause = min(took * self._pause_factor, self._longest_pause_seconds)
                entry = Counted(counts, float("inf") if has_ended else began + pause)
                self._counted.keep((job_id, has_ended), entry)
            return counts


def count_children(conn: Conn, job_id: str) -> dict[str, dict[str, int]]:
    """fan-out → status → how many children."""
    counts: dict[str, dict[str, int]] = {}
    for fan_out_id, status, count in conn.execute(SQL["child_counts"], {"job_id": job_id}):
        counts.setdefault(fan_out_id, {})[status] = count
    return counts


child_counts = ChildCounts()
