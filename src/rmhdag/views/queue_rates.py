"""How fast queues fill and empty: tasks that came and tasks that were reported within the last minutes.

A report names no queue, but its workflow does; so reports are counted by node and put to the node's queue here. Such a
count takes the database a tenth of a second if there are many reports; callers of the next seconds are told the same.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from rmhdag.models.api.queues import QueueStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.views.jobs import queues_of
from rmhdag.views.memory import Memory
from rmhdag.views.nodes import NodeKinds
from rmhdag.views.pictures import read_definition

SQL = load_queries(__file__)
WINDOW_MINUTES = 5.0
# So many reports are counted at most: beyond 4,000 a minute the figures are lower bounds.
MOST_REPORTS = 20_000
# The pace of five minutes is hardly another one five seconds later.
COUNT_SECONDS = 5.0
MOST_NAMESPACES = 1_000


class Reported(NamedTuple):
    """Reports of a node of a workflow version; `arrived` of them also came into their queue within the window."""

    workflow_id: str
    workflow_version: int
    workflow_hash: str
    node_id: str
    reported: int
    arrived: int


class Arrived(NamedTuple):
    queue: str
    arrived: int


class Pace(NamedTuple):
    """Tasks by queue, within the window."""

    arrived: Counter[str]
    reported: Counter[str]


@dataclass(slots=True)
class _Counted:
    """`lock`: while one caller counts, the others of the namespace wait for the result."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    pace: Pace | None = None
    at: float = 0.0


class QueueRates:
    """One per process: each namespace is counted at most every COUNT_SECONDS, however often it asks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._namespaces: Memory[str, _Counted] = Memory(MOST_NAMESPACES)

    def add_to(self, queues: list[QueueStatus], conn: Conn, namespace: str) -> None:
        """Fill in what enters and leaves each queue per minute, and when it would be empty at that pace."""
        arrived, reported = self._pace(conn, namespace)
        for status in queues:
            status.in_per_minute = round(arrived[status.queue] / WINDOW_MINUTES, 2)
            status.out_per_minute = round(reported[status.queue] / WINDOW_MINUTES, 2)
            status.drain_seconds = _drain_seconds(status)

    def _pace(self, conn: Conn, namespace: str) -> Pace:
        counted = self._namespaces.recall(namespace) or self._namespaces.keep(namespace, _Counted())
        with counted.lock:
            if counted.pace is None or self._clock() - counted.at > COUNT_SECONDS:
                counted.pace = _count(conn, namespace)
                counted.at = self._clock()
            return counted.pace


def _count(conn: Conn, namespace: str) -> Pace:
    parameters = {"namespace": namespace, "minutes": WINDOW_MINUTES, "most": MOST_REPORTS}
    pace = Pace(Counter(), Counter())
    for row in read_all(conn, Arrived, SQL["arrived"], parameters):
        pace.arrived[row.queue] += row.arrived
    queue_of = queues_of(conn, namespace)
    for line in read_all(conn, Reported, SQL["reported"], parameters):
        key = (namespace, line.workflow_id, line.workflow_version, line.workflow_hash)
        _, queue = NodeKinds(read_definition(conn, key), queue_of).task_of(line.node_id)
        if queue is not None:
            pace.reported[queue] += line.reported
            pace.arrived[queue] += line.arrived
    return pace


def _drain_seconds(status: QueueStatus) -> float | None:
    """None while it does not get shorter: then no time is the right one."""
    pace = (status.out_per_minute or 0.0) - (status.in_per_minute or 0.0)
    if not status.waiting:
        return 0.0
    return round(60 * status.waiting / pace, 1) if pace > 0 and status.workers else None
