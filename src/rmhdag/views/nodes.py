"""Nodes as they are shown: of one job, of one fan-out, across jobs; and one with all about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.models.api.data_errors import WarningView
from rmhdag.models.api.jobs import Reason
from rmhdag.models.api.nodes import NodeSummary, NodeView
from rmhdag.models.data_warnings import WarningSum
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, NodeStatus, NodeType
from rmhdag.services.plans import QueueOf
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all, read_one
from rmhdag.views.fan_outs import child_counts
from rmhdag.views.jobs import JobHead, SeenJob, queues_of
from rmhdag.views.pictures import children_counts, definition_key, picture_of, read_definition
from rmhdag.views.reading import labels
from rmhdag.views.reasons import MOST_EXPLAINED_NODES, explain_nodes
from rmhdag.workflow.definition import FanOutNode, TaskNode, TaskSpec, WorkflowDefinition

SQL = load_queries(__file__)
# Across jobs: so many jobs are looked through at a time, so many times at most.
JOBS_PER_LOOK = 100
MOST_LOOKS = 10
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)


class ListedNode(NodeSummary):
    """As it is read; the definition says of which type it is, and what its handler and queue are."""

    type: NodeType = NodeType.TASK


class FoundNode(NodeView):
    """As it is read, like `ListedNode`."""

    type: NodeType = NodeType.TASK
    execution_duration_ms: int | None


class ChildJob(NamedTuple):
    child_job_id: str
    warnings: list[dict[str, Any]]


class NodeKinds:
    """What a definition says of nodes, and of the children that are made by it."""

    def __init__(self, definition: WorkflowDefinition, queue_of: QueueOf) -> None:
        self._definition = definition
        self._queue_of = queue_of

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
        return (None, None) if spec is None else (spec.handler, spec.queue or self._queue_of(spec.handler))

    def complete(self, node: NodeSummary) -> NodeSummary:
        """Fill in what the row of a node does not say."""
        node.type = self.type_of(node.node_id, node.parent_node_id)
        node.handler, node.queue = self.task_of(node.node_id, node.parent_node_id)
        return node


def _is_template(node: Any) -> bool:
    return isinstance(node, TaskNode) and node.template_of is not None


def _spec(definition: WorkflowDefinition, node_id: str) -> TaskSpec | None:
    node = definition.nodes.get(node_id)
    return node.task if isinstance(node, TaskNode | FanOutNode) else None


def kinds_of(conn: Conn, job: SeenJob) -> NodeKinds:
    return NodeKinds(read_definition(conn, definition_key(job)), job.queue_of(conn))


def list_nodes(
    conn: Conn,
    job: SeenJob,
    *,
    statuses: Collection[str] = (),
    parent: str | None = None,
    with_children: bool = False,
    after: str | int | None = None,
    limit: int = 100,
) -> list[NodeSummary]:
    """`after` is the index of a child if a fan-out is given by `parent`, else a node id."""
    kinds = kinds_of(conn, job)
    parameters: dict[str, Any] = {"job_id": job.job_id, "statuses": labels(statuses), "limit": limit}
    if parent is not None:
        query, place = "children", {"parent": parent, "after": -1 if after is None else int(after)}
    elif with_children:
        query, place = "all_nodes", {"after": str(after or "")}
    else:
        query, place = "nodes_of_definition", {"nodes": kinds.node_ids(), "after": str(after or "")}
    return [kinds.complete(node) for node in read_all(conn, ListedNode, SQL[query], parameters | place)]


def find_node(conn: Conn, job_id: str, node_id: str) -> FoundNode | None:
    """A node or a child, with its parameters and its output."""
    return read_one(conn, FoundNode, SQL["node"], {"job_id": job_id, "node_id": node_id})


def read_node(conn: Conn, job: JobHead, node_id: str, alive_seconds: float) -> NodeView | None:
    node = find_node(conn, job.job_id, node_id)
    if node is None:
        return None
    kinds_of(conn, job).complete(node)
    counts: Mapping[str, int] = {}
    if node.type is NodeType.FAN_OUT:
        total = node.output.get("total") if isinstance(node.output, dict) else None
        if total:
            counts = child_counts(conn, job.job_id, has_ended=job.status in JOB_TERMINAL).get(node_id, {})
        node.children_total, node.children = total, children_counts(counts, total or 0)
        if job.has_warnings:
            node.warnings = child_warnings(conn, job.job_id, node_id)
    elif node.type is NodeType.WORKFLOW:
        child = read_one(conn, ChildJob, SQL["child_job"], {"job_id": job.job_id, "node_id": node_id})
        if child is not None:
            node.child_job_id, node.warnings = child.child_job_id, _shown(child.warnings)
    node.reason = _explain(conn, job, node, sum(counts.values()), alive_seconds)
    return node


def _explain(conn: Conn, job: JobHead, node: FoundNode, children: int, alive_seconds: float) -> Reason | None:
    if job.status in JOB_TERMINAL or node.status in NODE_TERMINAL:
        return None
    if children > MOST_EXPLAINED_NODES or (node.fan_out_index or 0) > MOST_EXPLAINED_NODES:
        return None
    child_id = None if node.parent_node_id is None else node.node_id
    picture = picture_of(conn, job, alive_seconds=alive_seconds, most_loaded=MOST_EXPLAINED_NODES, child_id=child_id)
    return explain_nodes(conn, picture, [node.node_id], alive_seconds).get(node.node_id)


def child_warnings(conn: Conn, job_id: str, fan_out_id: str) -> list[WarningView]:
    """Of the children of a fan-out that completed, added up."""
    total = WarningSum()
    for (warnings,) in conn.execute(SQL["child_warnings"], {"job_id": job_id, "node_id": fan_out_id}):
        total.add(warnings)
    return _shown(total.as_json())


def _shown(warnings: list[dict[str, Any]]) -> list[WarningView]:
    return [WarningView(**warning) for warning in warnings]


class NodePlace(NamedTuple):
    """Where a page of nodes across jobs ended; `node_id` None: behind all nodes of that job."""

    created_at: datetime
    job_id: str
    node_id: str | None


class _Job(NamedTuple):
    job_id: str
    created_at: datetime
    workflow_id: str
    workflow_version: int
    workflow_hash: str


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
    queue_of = queues_of(conn, namespace)
    page: list[NodeSummary] = []
    for _ in range(MOST_LOOKS):
        jobs = _newest_jobs(conn, namespace, after, only_open=only_open)
        kinds = {job.job_id: NodeKinds(read_definition(conn, (namespace, *job[2:])), queue_of) for job in jobs}
        keys = [
            (job.job_id, node_id)
            for job in jobs
            for node_id in kinds[job.job_id].node_ids()
            if _is_meant(kinds[job.job_id], node_id, handler, queue) and not _is_behind(after, job.job_id, node_id)
        ]
        nodes: dict[str, list[ListedNode]] = {}
        for node in _nodes_by_name(conn, keys, statuses):
            nodes.setdefault(node.job_id, []).append(node)
        for job in jobs:
            for node in sorted(nodes.get(job.job_id, ()), key=lambda node: node.node_id):
                page.append(kinds[job.job_id].complete(node))
                if len(page) == limit:
                    return page, NodePlace(job.created_at, job.job_id, node.node_id)
        if len(jobs) <= JOBS_PER_LOOK:
            return page, None
        after = NodePlace(jobs[-1].created_at, jobs[-1].job_id, None)
    return page, after


def _newest_jobs(conn: Conn, namespace: str, until: NodePlace | None, *, only_open: bool) -> list[_Job]:
    """Newest first, from `until` on, which is among them."""
    parameters = {
        "namespace": namespace,
        "until_at": END_OF_TIME if until is None else until.created_at,
        "until_id": "" if until is None else until.job_id,
        "limit": JOBS_PER_LOOK + 1,
    }
    return read_all(conn, _Job, SQL["newest_open_jobs" if only_open else "newest_jobs"], parameters)


def _nodes_by_name(conn: Conn, keys: Sequence[tuple[str, str]], statuses: Collection[str]) -> list[ListedNode]:
    """Pairs of job and node; in no order."""
    if not keys:
        return []
    parameters = {"keys": orjson.dumps(keys).decode(), "statuses": labels(statuses)}
    return read_all(conn, ListedNode, SQL["nodes_by_name"], parameters)


def _is_meant(kinds: NodeKinds, node_id: str, handler: str | None, queue: str | None) -> bool:
    if handler is None and queue is None:
        return True
    task = kinds.task_of(node_id)
    return (handler is None or task[0] == handler) and (queue is None or task[1] == queue)


def _is_behind(after: NodePlace | None, job_id: str, node_id: str) -> bool:
    """Whether it was on a page before."""
    return after is not None and after.job_id == job_id and (after.node_id is None or node_id <= after.node_id)
