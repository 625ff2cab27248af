"""One job as people see it: its nodes in the order in which they run, fan-outs with the counts of their children."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from rmhdag.engine.loading import ChildUnderWay, LoadedChildren
from rmhdag.models.api.jobs import NodeCounts, Reason
from rmhdag.models.api.overviews import NodeOverview
from rmhdag.models.states import JOB_TERMINAL, NodeStatus, NodeType
from rmhdag.services.plans import DefinitionMissingError, definition_of
from rmhdag.store.batch_rows import PieceOfFanOut
from rmhdag.store.connection import Conn
from rmhdag.store.jobs import load_children
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.views.fan_outs import Counts, child_counts
from rmhdag.views.jobs import SeenJob
from rmhdag.views.memory import Memory
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.edges import definition_edges

SQL = load_queries(__file__)
# A worker whose heartbeat is older serves nobody, if it is not asked who serves what.
NO_WORKERS = 0.0


class NodeRow(NodeOverview):
    """A node as it is read. What the definition says of it is filled in: `type`, `taken_over` and `children`.

    `total` is the number of a fan-out's children, known once it has begun; `taken` the branch of a conditional. A task
    in a queue has `queue`, `handler`, the time before which it is not offered, and counts of the live workers that
    serve the queue and of those that can run it. `message` is what a person is asked.
    """

    type: NodeType = NodeType.TASK
    taken_over: bool = False
    children: NodeCounts | None = None
    reason: Reason | None = None
    total: int | None
    taken: list[str] | None
    message: str | None
    queue: str | None
    handler: str | None
    available_at: datetime | None
    workers: int | None
    able: int | None

    @property
    def output(self) -> dict[str, Any] | None:
        """What the engine made and needs again: the outputs of tasks are not read."""
        if self.total is not None:
            return {"total": self.total}
        return None if self.taken is None else {"taken": self.taken}


@dataclass
class JobPicture:
    """`loaded` are the children of the fan-outs as the engine takes them; None if there are too many."""

    job: SeenJob
    nodes: list[NodeRow]
    loaded: dict[str, LoadedChildren] | None

    @property
    def has_ended(self) -> bool:
        return self.job.status in JOB_TERMINAL

    @property
    def waiting(self) -> list[str]:
        return [node.node_id for node in self.nodes if not node.is_settled]

    @cached_property
    def node_counts(self) -> NodeCounts:
        """All nodes by status, children included. Only children that are not born yet are pending, and those of a
        fan-out that is settled never will be.
        """
        counts = dict.fromkeys(NodeCounts.model_fields, 0)
        for node in self.nodes:
            counts[node.status] += 1
            for status, count in node.children or ():
                if status != "pending" or not node.is_settled:
                    counts[status] += count
        counts["total"] = sum(counts[status] for status in NodeStatus)
        return NodeCounts(**counts)


class JobOrder:
    """The nodes of a definition by how far they are from the start, for every picture of its jobs."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        self.types = {node_id: node.type for node_id, node in definition.nodes.items()}
        # Those that a node waits for.
        self.before: dict[str, list[str]] = {node_id: [] for node_id in definition.nodes}
        for edge in definition_edges(definition):
            self.before[edge.target].append(edge.source)
        self._places = _places(self.before)
        self.nodes = self.sort_names(definition.nodes)

    def of_type(self, node_type: NodeType) -> list[str]:
        return [node_id for node_id, its_type in self.types.items() if its_type is node_type]

    def sort(self, nodes: Iterable[NodeRow]) -> list[NodeRow]:
        return sorted(nodes, key=lambda node: self._key(node.node_id))

    def sort_names(self, node_ids: Iterable[str]) -> list[str]:
        return sorted(node_ids, key=self._key)

    def _key(self, node_id: str) -> tuple[int, str]:
        return self._places.get(node_id, 0), node_id


_orders: Memory[tuple[str, str, int, str], JobOrder] = Memory(1_000)


def order_of(conn: Conn, job: SeenJob) -> JobOrder:
    key = definition_key(job)
    order = _orders.recall(key)
    if order is not None:
        return order
    try:
        return _orders.keep(key, JobOrder(definition_of(conn, *key)))
    except DefinitionMissingError:
        return JobOrder(read_definition(conn, key))


def definition_key(job: SeenJob) -> tuple[str, str, int, str]:
    return job.namespace, job.workflow_id, job.workflow_version, job.workflow_hash


def read_definition(conn: Conn, key: tuple[str, str, int, str]) -> WorkflowDefinition:
    """The one that the job was created with; if it is gone, the job is shown without nodes rather than not at all."""
    try:
        return definition_of(conn, *key)
    except DefinitionMissingError:
        return WorkflowDefinition.model_construct(workflow_id=key[1], name=key[1], version=key[2], nodes={})


def picture_of(
    conn: Conn, job: SeenJob, *, alive_seconds: float = NO_WORKERS, most_loaded: int = 0, child_id: str | None = None
) -> JobPicture:
    """The row of the job was read before: if it has ended, the nodes are those of its end. A child of a fan-out is read
    like a node if it is named. At most `most_loaded` nodes and children are loaded for the engine.
    """
    order = order_of(conn, job)
    nodes = order.sort(read_nodes(conn, job, order, alive_seconds, [] if child_id is None else [child_id]))
    for node in nodes:
        node.type = order.types.get(node.node_id, NodeType.TASK)
        node.taken_over = job.rerun is not None and node.node_id not in job.rerun["again"]
    totals = {node.node_id: node.total for node in nodes if node.total and node.type is NodeType.FAN_OUT}
    has_ended = job.status in JOB_TERMINAL
    loaded = None
    if not has_ended and len(nodes) + sum(totals.values()) <= most_loaded:
        loaded = read_children(conn, job.job_id, totals)
    counts: Counts = _counted(loaded) if loaded is not None else {}
    if loaded is None and totals:
        counts = child_counts(conn, job.job_id, has_ended=has_ended)
    for node in nodes:
        if node.type is NodeType.FAN_OUT and node.total is not None:
            node.children = children_counts(counts.get(node.node_id, {}), node.total)
    return JobPicture(job, nodes, loaded)


def read_nodes(
    conn: Conn,
    job: SeenJob,
    order: JobOrder,
    alive_seconds: float = NO_WORKERS,
    more: Collection[str] = (),
) -> list[NodeRow]:
    parameters = {
        "job_id": job.job_id,
        "namespace": job.namespace,
        "nodes": [*order.nodes, *more],
        "conditionals": order.of_type(NodeType.CONDITIONAL),
        "workflows": order.of_type(NodeType.WORKFLOW),
        "alive_seconds": alive_seconds,
    }
    return read_all(conn, NodeRow, SQL["nodes"], parameters)


def read_children(conn: Conn, job_id: str, totals: Mapping[str, int]) -> dict[str, LoadedChildren] | None:
    """As far as they are born; None if rows are missing between them, which nobody removes while a job is open."""
    if not totals:
        return {}
    pieces = load_children(conn, [PieceOfFanOut(job_id, name, 0, total) for name, total in totals.items()])
    if any(piece.has_gap for piece in pieces):
        return None
    return {
        piece.fan_out_id: LoadedChildren(
            bytearray(piece.statuses),
            bytearray(piece.attempts),
            [ChildUnderWay(*child) for child in piece.under_way],
            piece.error,
        )
        for piece in pieces
    }


def _counted(loaded: Mapping[str, LoadedChildren]) -> dict[str, dict[str, int]]:
    return {
        fan_out_id: {status.value: children.statuses.count(code) for code, status in enumerate(NodeStatus)}
        for fan_out_id, children in loaded.items()
    }


def children_counts(counts: Mapping[str, int], total: int) -> NodeCounts:
    """Of a fan-out; children that are not born yet count as pending."""
    born = sum(counts.values())
    unborn = max(total - born, 0)
    return NodeCounts.model_validate({**counts, "pending": counts.get("pending", 0) + unborn, "total": born + unborn})


def _places(before: Mapping[str, Collection[str]]) -> dict[str, int]:
    """The length of the longest way to each node."""
    behind: dict[str, list[str]] = {node_id: [] for node_id in before}
    waits = {node_id: len(sources) for node_id, sources in before.items()}
    for target, sources in before.items():
        for source in sources:
            behind[source].append(target)
    places = dict.fromkeys(before, 0)
    ready = [node_id for node_id, count in waits.items() if not count]
    while ready:
        source = ready.pop()
        for target in behind[source]:
            places[target] = max(places[target], places[source] + 1)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return places
