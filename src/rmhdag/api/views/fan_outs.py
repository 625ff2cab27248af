"""How many children of each fan-out are in which state, at a bounded cost however many there are and whoever asks.

Counting 100,000 children takes the database some 40 ms: no index may name `status`, for that would cost every task. So
a count of many is shown again for a while, in proportion to its cost, and one of a job that has ended for good.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import psycopg

from rmhdag.api.views.memory import Memory
from rmhdag.store import views

Conn = psycopg.Connection[Any]
Counts = Mapping[str, Mapping[str, int]]
# At most a twentieth of one connection's time goes into counting the same children, and no answer is older than 2 s.
PAUSE_FACTOR = 20
LONGEST_PAUSE_SECONDS = 2.0
MANY = 10_000


class Counted(NamedTuple):
    counts: Counts
    good_until: float


def child_counts(conn: Conn, job_id: str, *, has_ended: bool) -> Counts:
    """fan-out → status → children. `has_ended`: the job was seen to have ended, so nothing will change."""
    with _locks[hash(job_id) % len(_locks)]:
        known = _counted.recall((job_id, has_ended))
        if known is not None and time.monotonic() < known.good_until:
            return known.counts
        began = time.monotonic()
        counts = views.child_counts(conn, job_id)
        if sum(sum(by_status.values()) for by_status in counts.values()) >= MANY:
            took = time.monotonic() - began
            pause = float("inf") if has_ended else min(took * PAUSE_FACTOR, LONGEST_PAUSE_SECONDS)
            _counted.keep((job_id, has_ended), Counted(counts, began + pause))
        return counts


_counted: Memory[tuple[str, bool], Counted] = Memory(1_000)
_locks = tuple(threading.Lock() for _ in range(64))
