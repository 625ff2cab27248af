"""One job as people see it: its nodes in the order in which they run, fan-outs with the counts of their children."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from rmhdag.api.views.fan_outs import child_counts
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, NodeType
from rmhdag.orchestrator.definitions import DefinitionMissingError, definition_of
from rmhdag.store import views
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.edges import definition_edges

Conn = psycopg.Connection[Any]
SETTLED = frozenset(status.value for status in NODE_TERMINAL)
ENDED = frozenset(status.value for status in JOB_TERMINAL)


@dataclass(slots=True)
class NodePicture:
    """`counts` are those of a fan-out's children by status; `total` counts those that are not born yet, too."""

    node_id: str
    type: str
    line: views.NodeLine
    counts: Mapping[str, int] = field(default_factory=dict)
    progress: views.Progress | None = None
    taken_over: bool = False
    child_job_id: str | None = None

    @property
    def status(self) -> str:
        return self.line.status

    @property
    def total(self) -> int | None:
        return self.line.total

    @property
    def is_settled(self) -> bool:
        return self.line.status in SETTLED


@dataclass(slots=True)
class JobPicture:
    job: dict[str, Any]
    nodes: list[NodePicture]

    @property
    def status(self) -> str:
        return str(self.job["status"])

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def node_counts(self) -> dict[str, int]:
        """All nodes by status, children included; `total` counts children that are not born yet as pending."""
        counts: dict[str, int] = {"total": 0}
        for node in self.nodes:
            counts[node.status] = counts.get(node.status, 0) + 1
            for status, count in node.counts.items():
                counts[status] = counts.get(status, 0) + count
            if node.total is not None and not node.is_settled:
                counts["pending"] = counts.get("pending", 0) + node.total - sum(node.counts.values())
        counts["total"] = sum(counts.values())
        return counts


class JobOrder:
    """The nodes of a definition by how far they are from the start, for every picture of its jobs."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        self.types = {node_id: str(node.type.value) for node_id, node in definition.nodes.items()}
        self._places = _places(definition)

    def sort(self, lines: list[views.NodeLine]) -> list[views.NodeLine]:
        return sorted(lines, key=lambda line: self._key(line.node_id))

    def sort_names(self, node_ids: Iterable[str]) -> list[str]:
        return sorted(node_ids, key=self._key)

    def _key(self, node_id: str) -> tuple[int, str]:
        return self._places.get(node_id, 0), node_id


def order_of(conn: Conn, job: Mapping[str, Any]) -> JobOrder:
    return JobOrder(read_definition(conn, job))


def read_definition(conn: Conn, job: Mapping[str, Any]) -> WorkflowDefinition:
    """The one that the job was created with; if it is gone, the job is shown without nodes rather than not at all."""
    key = (job["namespace"], job["workflow_id"], job["workflow_version"], job["workflow_hash"])
    try:
        return definition_of(conn, *key)
    except DefinitionMissingError:
        return WorkflowDefinition.model_construct(
            workflow_id=job["workflow_id"], name=job["workflow_id"], version=job["workflow_version"], nodes={}
        )


def picture_of(conn: Conn, job: dict[str, Any], order: JobOrder) -> JobPicture:
    """The row of the job was read before: if it has ended, the nodes are those of its end."""
    job_id = job["job_id"]
    lines = order.sort(views.nodes(conn, job_id, list(order.types)))
    fan_outs = any(order.types.get(line.node_id) == NodeType.FAN_OUT and line.total for line in lines)
    children = child_counts(conn, job_id, has_ended=job["status"] in ENDED) if fan_outs else {}
    rerun = job["metadata"].get("rerun")
    told = views.progress(conn, [line.task_id for line in lines if line.status == "running" and line.task_id])
    begun = [line.node_id for line in lines if line.task_id and order.types.get(line.node_id) == NodeType.WORKFLOW]
    child_jobs = views.child_jobs(conn, job_id, begun)
    nodes = [
        NodePicture(
            line.node_id,
            order.types.get(line.node_id, ""),
            line,
            children.get(line.node_id, {}),
            told.get(line.node_id),
            rerun is not None and line.node_id not in rerun["again"],
            child_jobs[line.node_id].job_id if line.node_id in child_jobs else None,
        )
        for line in lines
    ]
    return JobPicture(job, nodes)


def _places(definition: WorkflowDefinition) -> dict[str, int]:
    """The length of the longest way to each node."""
    behind: dict[str, list[str]] = {node_id: [] for node_id in definition.nodes}
    waits = dict.fromkeys(definition.nodes, 0)
    for edge in definition_edges(definition):
        behind[edge.source].append(edge.target)
        waits[edge.target] += 1
    places = dict.fromkeys(definition.nodes, 0)
    ready = [node_id for node_id, count in waits.items() if not count]
    while ready:
        source = ready.pop()
        for target in behind[source]:
            places[target] = max(places[target], places[source] + 1)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return places
