"""How fast queues fill and empty: tasks that came and tasks that were reported within the last minutes.

A report names no queue, but its workflow does; so reports are counted by node and put to the node's queue here.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rmhdag.models.api.queues import QueueStatus
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.views.jobs import queues_of
from rmhdag.views.nodes import NodeKinds
from rmhdag.views.pictures import read_definition

SQL = load_queries(__file__)
WINDOW_MINUTES = 5.0
# So many reports are counted at most: beyond 4,000 a minute the figures are lower bounds.
MOST_REPORTS = 20_000


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


def add_rates(conn: Conn, namespace: str, queues: list[QueueStatus]) -> None:
    """Fill in what enters and leaves each queue per minute, and when it would be empty at that pace."""
    parameters = {"namespace": namespace, "minutes": WINDOW_MINUTES, "most": MOST_REPORTS}
    arrived: Counter[str] = Counter()
    reported: Counter[str] = Counter()
    for row in read_all(conn, Arrived, SQL["arrived"], parameters):
        arrived[row.queue] += row.arrived
    queue_of = queues_of(conn, namespace)
    for line in read_all(conn, Reported, SQL["reported"], parameters):
        key = (namespace, line.workflow_id, line.workflow_version, line.workflow_hash)
        _, queue = NodeKinds(read_definition(conn, key), queue_of).task_of(line.node_id)
        if queue is not None:
            reported[queue] += line.reported
            arrived[queue] += line.arrived
    for status in queues:
        status.in_per_minute = round(arrived[status.queue] / WINDOW_MINUTES, 2)
        status.out_per_minute = round(reported[status.queue] / WINDOW_MINUTES, 2)
        status.drain_seconds = _drain_seconds(status)


def _drain_seconds(status: QueueStatus) -> float | None:
    """None while it does not get shorter: then no time is the right one."""
    pace = (status.out_per_minute or 0.0) - (status.in_per_minute or 0.0)
    if not status.waiting:
        return 0.0
    return round(60 * status.waiting / pace, 1) if pace > 0 and status.workers else None
