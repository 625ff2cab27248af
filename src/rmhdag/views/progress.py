"""How far a job is, and when it will be done.

The percentage is made of facts that only ever grow: a node counts once it has completed or its branch was not taken, a
fan-out by the completed share of its children until it is settled. Failed children may be tried again, so they count
when their fan-out does; what a running task says of itself is shown, but may begin anew and so counts for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from rmhdag.models.api.progress import JobProgress, NodeProgress, ProgressCounts, TaskProgress
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, JobStatus, NodeStatus
from rmhdag.store import metrics
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all, read_one
from rmhdag.views.fan_outs import child_counts
from rmhdag.views.jobs import SeenJob
from rmhdag.views.memory import Memory
from rmhdag.views.pictures import JobOrder, order_of, read_nodes

SQL = load_queries(__file__)
MOST_TASKS = 100
HISTORY_DAYS = 14
HISTORY_SECONDS = 60.0


class SeenNode(NodeProgress):
    """A node or a child as it is read. `total` is the number of a fan-out's children, known once it has begun."""

    children: ProgressCounts | None = None
    total: int | None
    parent_node_id: str | None


def job_progress(conn: Conn, job: SeenJob) -> JobProgress:
    """The job is read before its nodes: if it has ended, they are those of its end."""
    order = order_of(conn, job)
    nodes = read_nodes(conn, job, order)
    ended = job.status in JOB_TERMINAL
    children = child_counts(conn, job.job_id, has_ended=ended) if any(node.total for node in nodes) else {}
    return JobProgress(
        job_id=job.job_id,
        job_status=job.status,
        workflow_id=job.workflow_id,
        overall_percent=100.0 if job.status is JobStatus.COMPLETED else percent_done(nodes, children),
        nodes=count_nodes(nodes, children),
        current_tasks=[] if ended else current_tasks(conn, job.job_id),
        estimated_completion=None if ended else _estimate(conn, job, order, nodes, children),
    )


def current_tasks(conn: Conn, job_id: str) -> list[TaskProgress]:
    return read_all(conn, TaskProgress, SQL["current_tasks"], {"job_id": job_id, "limit": MOST_TASKS})


def find_node(conn: Conn, job_id: str, node_id: str) -> SeenNode | None:
    """With what its current or last task reports of itself."""
    return read_one(conn, SeenNode, SQL["node"], {"job_id": job_id, "node_id": node_id})


def node_progress(conn: Conn, job: SeenJob, node: SeenNode) -> NodeProgress:
    if node.total is not None:
        counts: Mapping[str, int] = {}
        if node.total:
            counts = child_counts(conn, job.job_id, has_ended=job.status in JOB_TERMINAL).get(node.node_id, {})
        node.children = _count(_of_fan_out(node.status, node.total, counts))
    return node


class Counted(Protocol):
    """What the percentage, the counts and the estimate are made of."""

    @property
    def node_id(self) -> str: ...
    @property
    def status(self) -> NodeStatus: ...
    @property
    def total(self) -> int | None: ...
    @property
    def completed_at(self) -> datetime | None: ...
    @property
    def duration_seconds(self) -> float | None: ...


def percent_done(lines: Iterable[Counted], children: Mapping[str, Mapping[str, int]]) -> float:
    lines = list(lines)
    if not lines:
        return 0.0
    # What is skipped from the first failure on is skipped because of it, and was not on its way.
    failing_at = min(
        (line.completed_at for line in lines if line.status == "failed" and line.completed_at), default=None
    )
    done = 0.0
    for line in lines:
        if line.status == NodeStatus.COMPLETED:
            done += 1
        elif line.status == NodeStatus.SKIPPED:
            done += failing_at is None or line.completed_at is None or line.completed_at < failing_at
        elif line.total:
            done += children.get(line.node_id, {}).get("completed", 0) / line.total
    # Rounded down: only a job that has completed is at 100.
    return min(int(1000 * done / len(lines)) / 10, 99.9)


def count_nodes(lines: Iterable[Counted], children: Mapping[str, Mapping[str, int]]) -> ProgressCounts:
    counts: list[tuple[str, int]] = []
    for line in lines:
        counts.append((line.status, 1))
        if line.total is not None:
            counts += _of_fan_out(line.status, line.total, children.get(line.node_id, {}))
    return _count(counts)


def _of_fan_out(status: str, total: int, children: Mapping[str, int]) -> list[tuple[str, int]]:
    unborn = 0 if status in NODE_TERMINAL else max(0, total - sum(children.values()))
    return [*children.items(), ("pending", unborn)]


def _count(pairs: Iterable[tuple[str, int]]) -> ProgressCounts:
    counts: dict[str, int] = {}
    for status, count in pairs:
        name = "pending" if status == NodeStatus.READY else str(status)
        counts[name] = counts.get(name, 0) + count
    return ProgressCounts(total=sum(counts.values()), **counts)


# -- when it will be done ------------------------------------------------------------------------------------------


def _estimate(
    conn: Conn,
    job: SeenJob,
    order: JobOrder,
    lines: Sequence[Counted],
    children: Mapping[str, Mapping[str, int]],
) -> datetime | None:
    """The longest way through what is left. Both sides of an open branch count: it may be earlier, hardly later."""
    usual = usual_seconds(conn, job.namespace, job.workflow_id)
    if not usual or not lines:
        return None
    remaining = {line.node_id: seconds_left(line, children.get(line.node_id, {}), usual) for line in lines}
    return job.seen_at + timedelta(seconds=longest_way(order, remaining))


def seconds_left(line: Counted, children: Mapping[str, int], usual: Mapping[str, float]) -> float:
    if line.status in NODE_TERMINAL:
        return 0.0
    since = line.duration_seconds or 0.0
    done = sum(count for status, count in children.items() if status in NODE_TERMINAL)
    if line.total and done:
        return since / done * (line.total - done)
    ran = since if line.status == NodeStatus.RUNNING else 0.0
    return max(0.0, usual.get(line.node_id, 0.0) - ran)


def longest_way(order: JobOrder, remaining: Mapping[str, float]) -> float:
    until: dict[str, float] = {}
    for node_id in order.nodes:
        begins = max((until[before] for before in order.before[node_id]), default=0.0)
        until[node_id] = begins + remaining.get(node_id, 0.0)
    return max(until.values(), default=0.0)


def usual_seconds(conn: Conn, namespace: str, workflow_id: str) -> dict[str, float]:
    """The median duration of each node of a workflow; asked for once a minute, for it hardly changes."""
    key = (namespace, workflow_id)
    medians = _histories.recall(key)
    if medians is not None and medians[1] and time.monotonic() - medians[0] < HISTORY_SECONDS:
        return medians[1]
    history = metrics.node_history(conn, namespace, workflow_id, HISTORY_DAYS)
    seconds = {node: metrics.percentile_seconds(buckets, 0.5) or 0.0 for node, buckets in history.items()}
    return _histories.keep(key, (time.monotonic(), seconds))[1]


_histories: Memory[tuple[str, str], tuple[float, dict[str, float]]] = Memory(1_000)
