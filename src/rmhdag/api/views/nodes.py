"""Nodes as they are shown: of one job, of one fan-out, across jobs; one with all about it; and a job's graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from rmhdag.api.views.fan_outs import child_counts
from rmhdag.api.views.pictures import ENDED, SETTLED, order_of, picture_of, read_definition
from rmhdag.api.views.reasons import MOST_EXPLAINED_NODES, explain_nodes, with_last_error
from rmhdag.models.api.jobs import NodeCounts, Reason
from rmhdag.models.api.nodes import GraphState, GraphStructure, JobGraph, NodeSummary, NodeView
from rmhdag.models.states import NODE_TERMINAL, NodeStatus, NodeType
from rmhdag.orchestrator.registrations import handler_queues
from rmhdag.store import node_lists, views, workflows
from rmhdag.store.node_lists import NodeRow
from rmhdag.workflow.definition import FanOutNode, TaskNode, TaskSpec, WorkflowDefinition
from rmhdag.workflow.layout import layout

Conn = psycopg.Connection[Any]
# Across jobs: so many jobs are looked through at a time, so many times at most.
JOBS_PER_LOOK = 100
MOST_LOOKS = 10


class NodeKinds:
    """What a definition says of nodes, and of the children that are made by it."""

    def __init__(self, definition: WorkflowDefinition, queues: dict[str, str]) -> None:
        self._definition = definition
        self._queues = queues

    def node_ids(self) -> list[str]:
        return [name for name, node in self._definition.nodes.items() if not _is_template(node)]

    def type_of(self, node_id: str, parent_node_id: str | None) -> NodeType:
        node = self._definition.nodes.get(node_id)
        return NodeType.TASK if parent_node_id is not None or node is None else node.type

    def task_of(self, node_id: str, parent_node_id: str | None = None) -> tuple[str | None, str | None]:
        """(handler, queue) of a task, or of what a fan-out's children do."""
        spec = _spec(self._definition, parent_node_id or node_id)
        if spec is None and parent_node_id is None:
            spec = _spec(self._definition, node_id.rpartition("__")[0])
        return (None, None) if spec is None else (spec.handler, spec.queue or self._queues.get(spec.handler))


def _is_template(node: Any) -> bool:
    return isinstance(node, TaskNode) and node.template_of is not None


def _spec(definition: WorkflowDefinition, node_id: str) -> TaskSpec | None:
    node = definition.nodes.get(node_id)
    return node.task if isinstance(node, TaskNode | FanOutNode) else None


def kinds_of(conn: Conn, job: dict[str, Any]) -> NodeKinds:
    return NodeKinds(read_definition(conn, job), handler_queues(conn, job["namespace"]))


def warnings_of(conn: Conn, rows: Sequence[NodeRow]) -> dict[str, list[dict[str, Any]]]:
    """By task, of those that have some."""
    return views.task_warnings(conn, [task_id for row in rows if (task_id := row.reused_task_id or row.task_id)])


def summary_of(row: NodeRow, kinds: NodeKinds, warnings: Mapping[str, list[dict[str, Any]]]) -> NodeSummary:
    handler, queue = kinds.task_of(row.node_id, row.parent_node_id)
    return NodeSummary.model_validate(
        {
            **row._asdict(),
            "type": kinds.type_of(row.node_id, row.parent_node_id),
            "handler": handler,
            "queue": queue,
            "warnings": warnings.get(row.reused_task_id or row.task_id or "", []),
        }
    )


def list_nodes(
    conn: Conn,
    job: dict[str, Any],
    *,
    statuses: Collection[str] = (),
    parent: str | None = None,
    with_children: bool = False,
    after: str | int | None = None,
    limit: int = 100,
) -> list[NodeSummary]:
    """`after` is the index of a child if a fan-out is given by `parent`, else a node id."""
    kinds, job_id = kinds_of(conn, job), job["job_id"]
    if parent is not None:
        last = -1 if after is None else int(after)
        rows = node_lists.children(conn, job_id, parent, after=last, statuses=statuses, limit=limit)
    elif with_children:
        rows = node_lists.all_nodes(conn, job_id, after=str(after or ""), statuses=statuses, limit=limit)
    else:
        rows = node_lists.nodes_of_definition(
            conn, job_id, kinds.node_ids(), after=str(after or ""), statuses=statuses, limit=limit
        )
    warnings = warnings_of(conn, rows)
    return [summary_of(row, kinds, warnings) for row in rows]


def read_node(conn: Conn, job: dict[str, Any], node_id: str, alive_seconds: float) -> NodeView | None:
    row = views.node(conn, job["job_id"], node_id)
    if row is None:
        return None
    kinds = kinds_of(conn, job)
    handler, queue = kinds.task_of(node_id, row["parent_node_id"])
    kind = kinds.type_of(node_id, row["parent_node_id"])
    output = row["output"]
    total = output.get("total") if kind is NodeType.FAN_OUT and isinstance(output, dict) else None
    counts = child_counts(conn, job["job_id"], has_ended=job["status"] in ENDED).get(node_id, {}) if total else {}
    if kind is NodeType.FAN_OUT and job["warnings"]:
        row["warnings"] = views.child_warnings(conn, job["job_id"], node_id)
    child = views.child_jobs(conn, job["job_id"], [node_id]).get(node_id) if kind is NodeType.WORKFLOW else None
    if child is not None:
        row |= {"child_job_id": child.job_id, "warnings": child.warnings}
    known = {name: value for name, value in row.items() if name in NodeView.model_fields}
    return NodeView.model_validate(
        {
            **known,
            "job_id": job["job_id"],
            "type": kind,
            "handler": handler,
            "queue": queue,
            "children_total": total,
            "metrics": row["metrics"] or {},
            "children": children_counts(counts, total) if kind is NodeType.FAN_OUT else None,
            "reason": _explain(conn, job, row, counts, alive_seconds),
        }
    )


def _explain(
    conn: Conn, job: dict[str, Any], node: dict[str, Any], counts: Mapping[str, int], alive_seconds: float
) -> Reason | None:
    if job["status"] in ENDED or node["status"] in SETTLED:
        return None
    if sum(counts.values()) > MOST_EXPLAINED_NODES:
        return None
    if node["parent_node_id"] is not None and node["fan_out_index"] > MOST_EXPLAINED_NODES:
        return None
    reason = explain_nodes(conn, job, [node["node_id"]], alive_seconds).get(node["node_id"])
    return None if reason is None else with_last_error(reason, _Attempted(node["attempt"], node["error_message"]))


class _Attempted(NamedTuple):
    attempt: int
    error_message: str | None


def children_counts(counts: Mapping[str, int], total: int | None) -> NodeCounts:
    """Of a fan-out; children that are not born yet count as pending."""
    born = sum(counts.values())
    unborn = max((total or 0) - born, 0)
    return NodeCounts.model_validate({**counts, "pending": counts.get("pending", 0) + unborn, "total": born + unborn})


def read_graph(conn: Conn, job: dict[str, Any], *, with_structure: bool) -> JobGraph:
    picture = picture_of(conn, job, order_of(conn, job))
    states = {
        node.node_id: GraphState(
            status=NodeStatus(node.status),
            attempt=node.line.attempt,
            started_at=node.line.started_at,
            completed_at=node.line.completed_at,
            duration_seconds=node.line.duration_seconds,
            error_message=node.line.error_message,
            taken_over=node.taken_over,
            children=children_counts(node.counts, node.total) if node.type == NodeType.FAN_OUT else None,
        )
        for node in picture.nodes
    }
    return JobGraph(
        job_id=job["job_id"],
        workflow_id=job["workflow_id"],
        workflow_version=job["workflow_version"],
        workflow_hash=job["workflow_hash"],
        status=job["status"],
        structure=read_structure(conn, job) if with_structure else None,
        states=states,
    )


def read_structure(conn: Conn, job: dict[str, Any]) -> GraphStructure:
    found = workflows.read_layout(
        conn, job["namespace"], job["workflow_id"], job["workflow_version"], job["workflow_hash"]
    )
    return GraphStructure.model_validate(found or layout(read_definition(conn, job)).as_json())


class NodePlace(NamedTuple):
    """Where a page of nodes across jobs ended; `node_id` None: behind all nodes of that job."""

    created_at: datetime
    job_id: str
    node_id: str | None


def nodes_across_jobs(
    conn: Conn,
    namespace: str,
    *,
    statuses: Collection[NodeStatus] = (),
    handler: str | None = None,
    queue: str | None = None,
    after: NodePlace | None = None,
    limit: int = 50,
) -> tuple[list[NodeSummary], NodePlace | None]:
    """Those of the newest jobs first, without the children of fan-outs; and where to go on, if there may be more."""
    only_open = bool(statuses) and not set(statuses) & NODE_TERMINAL
    queues = handler_queues(conn, namespace)
    found: list[NodeSummary] = []
    for _ in range(MOST_LOOKS):
        until = None if after is None else (after.created_at, after.job_id)
        heads = node_lists.newest_jobs(conn, namespace, only_open=only_open, until=until, limit=JOBS_PER_LOOK + 1)
        kinds = {
            head.job_id: NodeKinds(read_definition(conn, {"namespace": namespace, **head._asdict()}), queues)
            for head in heads
        }
        wanted = [
            (head.job_id, node_id)
            for head in heads
            for node_id in kinds[head.job_id].node_ids()
            if _is_meant(kinds[head.job_id], node_id, handler, queue) and not _is_behind(after, head.job_id, node_id)
        ]
        rows: dict[str, list[NodeRow]] = {}
        of_these = node_lists.nodes_by_name(conn, wanted, statuses)
        warnings = warnings_of(conn, of_these)
        for row in of_these:
            rows.setdefault(row.job_id, []).append(row)
        for head in heads:
            for row in sorted(rows.get(head.job_id, ()), key=lambda row: row.node_id):
                found.append(summary_of(row, kinds[head.job_id], warnings))
                if len(found) == limit:
                    return found, NodePlace(head.created_at, head.job_id, row.node_id)
        if len(heads) <= JOBS_PER_LOOK:
            return found, None
        after = NodePlace(heads[-1].created_at, heads[-1].job_id, None)
    return found, after


def _is_meant(kinds: NodeKinds, node_id: str, handler: str | None, queue: str | None) -> bool:
    if handler is None and queue is None:
        return True
    found = kinds.task_of(node_id)
    return (handler is None or found[0] == handler) and (queue is None or found[1] == queue)


def _is_behind(after: NodePlace | None, job_id: str, node_id: str) -> bool:
    """Whether it was on a page before."""
    return after is not None and after.job_id == job_id and (after.node_id is None or node_id <= after.node_id)
