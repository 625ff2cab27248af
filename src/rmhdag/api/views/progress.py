"""How far a job is, and when it will be done.

The percentage is made of facts that only ever grow: a node counts once it has completed or its branch was not taken, a
fan-out by the completed share of its children until it is settled. Failed children may be tried again, so they count
when their fan-out does; what a running task says of itself is shown, but may begin anew and so counts for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from rmhdag.api.views.fan_outs import child_counts
from rmhdag.api.views.memory import Memory
from rmhdag.models.api.progress import JobProgress, NodeProgress, ProgressCounts, SavedCheckpoint, TaskProgress
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, JobStatus, NodeStatus
from rmhdag.orchestrator.definitions import definition_of
from rmhdag.store import metrics, views
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.edges import definition_edges

Conn = psycopg.Connection[Any]
MOST_TASKS = 100
HISTORY_DAYS = 14
HISTORY_SECONDS = 60.0
SETTLED = frozenset(status.value for status in NODE_TERMINAL)
ENDED = frozenset(status.value for status in JOB_TERMINAL)


def job_progress(conn: Conn, job: views.JobHead) -> JobProgress:
    """The job is read before its nodes: if it has ended, they are those of its end."""
    shape = _shape(conn, job)
    lines = views.nodes(conn, job.job_id, shape.order)
    ended = job.status in ENDED
    children = child_counts(conn, job.job_id, has_ended=ended) if any(line.total for line in lines) else {}
    return JobProgress(
        job_id=job.job_id,
        job_status=JobStatus(job.status),
        workflow_id=job.workflow_id,
        overall_percent=100.0 if job.status == JobStatus.COMPLETED else percent_done(lines, children),
        nodes=count_nodes(lines, children),
        current_tasks=[] if ended else [_task(found) for found in views.current_tasks(conn, job.job_id, MOST_TASKS)],
        estimated_completion=None if ended else _estimate(conn, job, shape, lines, children),
    )


def node_progress(conn: Conn, job: views.JobHead, node: Mapping[str, Any]) -> NodeProgress:
    """`node` is a row of `views.node_progress`."""
    children: Mapping[str, int] = {}
    if node["total"]:
        children = child_counts(conn, job.job_id, has_ended=job.status in ENDED).get(node["node_id"], {})
    runs = node["task_id"] is not None and node["status"] in (NodeStatus.DISPATCHED, NodeStatus.RUNNING)
    return NodeProgress(
        job_id=job.job_id,
        node_id=node["node_id"],
        status=node["status"],
        retry_count=node["retry_count"],
        max_retries=node["max_retries"],
        children=None if node["total"] is None else _count(_of_fan_out(node["status"], node["total"], children)),
        task=TaskProgress.model_validate(node, extra="ignore") if runs else None,
        checkpoint=None
        if node["checkpoint_phase"] is None
        else SavedCheckpoint(phase=node["checkpoint_phase"], saved_at=node["checkpoint_saved_at"]),
    )


def percent_done(lines: Iterable[views.NodeLine], children: Mapping[str, Mapping[str, int]]) -> float:
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


def count_nodes(lines: Iterable[views.NodeLine], children: Mapping[str, Mapping[str, int]]) -> ProgressCounts:
    found: list[tuple[str, int]] = []
    for line in lines:
        found.append((line.status, 1))
        if line.total is not None:
            found += _of_fan_out(line.status, line.total, children.get(line.node_id, {}))
    return _count(found)


def _of_fan_out(status: str, total: int, children: Mapping[str, int]) -> list[tuple[str, int]]:
    unborn = 0 if status in SETTLED else max(0, total - sum(children.values()))
    return [*children.items(), ("pending", unborn)]


def _count(found: Iterable[tuple[str, int]]) -> ProgressCounts:
    counts: dict[str, int] = {}
    for status, count in found:
        name = "pending" if status == NodeStatus.READY else str(status)
        counts[name] = counts.get(name, 0) + count
    return ProgressCounts(total=sum(counts.values()), **counts)


def _task(found: views.CurrentTask) -> TaskProgress:
    return TaskProgress(**found._asdict())


# -- when it will be done ------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """The nodes of a definition so that each comes after those it waits for."""

    order: tuple[str, ...]
    before: Mapping[str, tuple[str, ...]]


def _estimate(
    conn: Conn,
    job: views.JobHead,
    shape: Shape,
    lines: list[views.NodeLine],
    children: Mapping[str, Mapping[str, int]],
) -> datetime | None:
    """The longest way through what is left. Both sides of an open branch count: it may be earlier, hardly later."""
    usual = usual_seconds(conn, job.namespace, job.workflow_id)
    if not usual or not lines:
        return None
    left = {line.node_id: seconds_left(line, children.get(line.node_id, {}), usual) for line in lines}
    return job.seen_at + timedelta(seconds=longest_way(shape, left))


def seconds_left(line: views.NodeLine, children: Mapping[str, int], usual: Mapping[str, float]) -> float:
    if line.status in SETTLED:
        return 0.0
    since = line.duration_seconds or 0.0
    done = sum(count for status, count in children.items() if status in SETTLED)
    if line.total and done:
        return since / done * (line.total - done)
    ran = since if line.status == NodeStatus.RUNNING else 0.0
    return max(0.0, usual.get(line.node_id, 0.0) - ran)


def longest_way(shape: Shape, left: Mapping[str, float]) -> float:
    until: dict[str, float] = {}
    for node_id in shape.order:
        begins = max((until[before] for before in shape.before[node_id]), default=0.0)
        until[node_id] = begins + left.get(node_id, 0.0)
    return max(until.values(), default=0.0)


def shape_of(definition: WorkflowDefinition) -> Shape:
    before: dict[str, list[str]] = {node_id: [] for node_id in definition.nodes}
    for edge in definition_edges(definition):
        before[edge.target].append(edge.source)
    order: dict[str, None] = {}
    while len(order) < len(before):
        ready = [node for node in before if node not in order and all(source in order for source in before[node])]
        if not ready:
            raise ValueError("a definition has no cycles")
        order.update(dict.fromkeys(ready))
    return Shape(tuple(order), {node: tuple(sources) for node, sources in before.items()})


def _shape(conn: Conn, job: views.JobHead) -> Shape:
    key = (job.namespace, job.workflow_id, job.workflow_version, job.workflow_hash)
    return _shapes.recall(key) or _shapes.keep(key, shape_of(definition_of(conn, *key)))


def usual_seconds(conn: Conn, namespace: str, workflow_id: str) -> dict[str, float]:
    """The median duration of each node of a workflow; asked for once a minute, for it hardly changes."""
    key = (namespace, workflow_id)
    known = _histories.recall(key)
    if known is not None and known[1] and time.monotonic() - known[0] < HISTORY_SECONDS:
        return known[1]
    history = metrics.node_history(conn, namespace, workflow_id, HISTORY_DAYS)
    found = {node: metrics.percentile_seconds(buckets, 0.5) or 0.0 for node, buckets in history.items()}
    return _histories.keep(key, (time.monotonic(), found))[1]


_shapes: Memory[tuple[str, str, int, str], Shape] = Memory(1_000)
_histories: Memory[tuple[str, str], tuple[float, dict[str, float]]] = Memory(1_000)
