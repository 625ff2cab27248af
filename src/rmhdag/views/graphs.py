"""The picture of a job: where its nodes lie, and how they stand."""

from __future__ import annotations

from rmhdag.models.api.jobs import NodeCounts
from rmhdag.models.api.nodes import GraphState, GraphStructure, JobGraph
from rmhdag.models.states import NodeType
from rmhdag.picture.layout import layout
from rmhdag.store import workflows
from rmhdag.store.connection import Conn
from rmhdag.views.jobs import SeenJob
from rmhdag.views.memory import Memory
from rmhdag.views.pictures import NodeRow, definition_key, picture_of, read_definition
from rmhdag.views.reading import shown_as

_structures: Memory[tuple[str, str, int, str], GraphStructure] = Memory(200)


def read_graph(conn: Conn, job: SeenJob, *, with_structure: bool) -> JobGraph:
    picture = picture_of(conn, job)
    return JobGraph(
        job_id=job.job_id,
        workflow_id=job.workflow_id,
        workflow_version=job.workflow_version,
        workflow_hash=job.workflow_hash,
        status=job.status,
        structure=read_structure(conn, job) if with_structure else None,
        states={node.node_id: _state(node) for node in picture.nodes},
    )


def _state(node: NodeRow) -> GraphState:
    if node.type is NodeType.FAN_OUT and node.children is None:
        return shown_as(GraphState, node, children=NodeCounts())
    return shown_as(GraphState, node)


def read_structure(conn: Conn, job: SeenJob) -> GraphStructure:
    """The same for all jobs of one content of a workflow: it is read once."""
    key = definition_key(job)
    cached = _structures.recall(key)
    if cached is not None:
        return cached
    stored = workflows.read_layout(conn, *key)
    definition = read_definition(conn, key)
    structure = GraphStructure.model_validate(stored or layout(definition).as_json())
    # Without nodes the definition is gone; it may come back.
    return _structures.keep(key, structure) if definition.nodes else structure
