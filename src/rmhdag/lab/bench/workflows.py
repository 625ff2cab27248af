"""The workflows that are measured. Every task is `echo`: what is left is the platform."""

from __future__ import annotations

from collections.abc import Mapping

from rmhdag.store import workflows
from rmhdag.store.connection import Conn
from rmhdag.store.workflows import StoredWorkflow
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.definition import (
    ApprovalNode,
    FanInNode,
    FanOutNode,
    InputDefinition,
    Node,
    TaskNode,
    TaskSpec,
    WorkflowDefinition,
)

QUEUE = "bench"
NAMESPACE = "default"


def chain(length: int) -> WorkflowDefinition:
    """Each node takes its parameter from the output of the one before."""
    nodes: dict[str, Node] = {}
    for index in range(length):
        source = f"{{{{ nodes.n{index - 1}.output.echoed_params.x }}}}" if index else 1
        nodes[f"n{index}"] = TaskNode(
            task=TaskSpec(handler="echo", queue=QUEUE, params={"x": source}),
            next=(f"n{index + 1}",) if index + 1 < length else (),
        )
    return _definition(f"chain_{length}", nodes)


def fan_out() -> WorkflowDefinition:
    nodes: dict[str, Node] = {
        "split": FanOutNode(
            source="{{ inputs.items }}",
            task=TaskSpec(handler="echo", queue=QUEUE, params={"x": "{{ item }}"}),
            next=("join",),
        ),
        "join": FanInNode(source_node="split", aggregation="last"),
    }
    return _definition("fan_out", nodes, {"items": InputDefinition(type="array", required=True)})


def idle() -> WorkflowDefinition:
    """Active and with nothing to do: it waits for somebody's decision."""
    return _definition("idle", {"wait": ApprovalNode()})


def _definition(
    workflow_id: str, nodes: Mapping[str, Node], inputs: dict[str, InputDefinition] | None = None
) -> WorkflowDefinition:
    return WorkflowDefinition.model_validate(
        {
            "workflow_id": workflow_id,
            "name": workflow_id,
            "nodes": {name: node.model_dump() for name, node in nodes.items()},
            "inputs": {name: value.model_dump() for name, value in (inputs or {}).items()},
        }
    )


def register(conn: Conn, definition: WorkflowDefinition) -> StoredWorkflow:
    content = definition_json(definition)
    stored = StoredWorkflow(definition.workflow_id, definition.version, definition_hash(definition), content)
    workflows.register_workflow(conn, NAMESPACE, stored, "bench", {})
    return stored
