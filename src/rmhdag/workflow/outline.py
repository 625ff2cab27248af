"""What any picture of a workflow shows: a caption per node and the arrows between them, whatever draws it.

A fan-out is one node, however many children it will have, and the node that describes its children is folded into it.
START and END appear even where the file leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.workflow.definition import (
    AnyNode,
    ApprovalNode,
    ConditionalNode,
    FanInNode,
    FanOutNode,
    TaskNode,
    WorkflowDefinition,
    WorkflowNode,
)
from rmhdag.workflow.edges import definition_edges
from rmhdag.workflow.implicit_nodes import END, START
from rmhdag.workflow.text_width import visible

ArrowKind = Literal["flow", "branch", "any_of"]


class Caption(NamedTuple):
    """`detail` is the second line: what runs, for whom it waits, what is compared."""

    id: str
    type: NodeType
    detail: str = ""
    description: str = ""


class Arrow(NamedTuple):
    source: str
    target: str
    label: str = ""
    kind: ArrowKind = "flow"


class Outline(NamedTuple):
    title: str
    description: str
    captions: tuple[Caption, ...]
    arrows: tuple[Arrow, ...]


def outline(definition: WorkflowDefinition) -> Outline:
    nodes = definition.nodes
    folded = {
        node_id: node.template_of for node_id, node in nodes.items() if isinstance(node, TaskNode) and node.template_of
    }
    arrows: dict[tuple[str, str], Arrow] = {}

    def add(arrow: Arrow) -> None:
        source, target = folded.get(arrow.source, arrow.source), folded.get(arrow.target, arrow.target)
        if source == target:
            return
        known = arrows.get((source, target))
        labels = [known.label] if known and known.label else []
        if arrow.label and arrow.label not in labels:
            labels.append(arrow.label)  # two branches to one node are one arrow
        arrows[source, target] = Arrow(source, target, ", ".join(labels), arrow.kind)

    for edge in definition_edges(definition):
        label = branch_label(nodes[edge.source], edge.branch_index) if edge.branch_index is not None else ""
        kind: ArrowKind = "any_of" if edge.group == "any_of" else "branch" if label else "flow"
        add(Arrow(edge.source, edge.target, label, kind))
    captions = [caption(node_id, node) for node_id, node in nodes.items() if node_id not in folded]
    start = next((one.id for one in captions if one.type is NodeType.START), None)
    end = next((one.id for one in captions if one.type is NodeType.END), None)
    for arrow in implied_arrows(definition, captions, set(arrows), start or START, end or END):
        add(arrow)
    before = [] if start else [Caption(START, NodeType.START)]
    after = [] if end else [Caption(END, NodeType.END)]
    title = f"{definition.workflow_id} v{definition.version}"
    description = one_line(definition.description or definition.name)
    return Outline(title, description, (*before, *captions, *after), tuple(arrows.values()))


def implied_arrows(
    definition: WorkflowDefinition, captions: list[Caption], known: set[tuple[str, str]], start: str, end: str
) -> Iterator[Arrow]:
    """What a file need not write: nodes that nothing leads to begin, nodes that lead nowhere end."""
    reached = {target for _, target in known}
    leaving = {source for source, _ in known}
    for one in captions:
        if one.id not in reached and one.type is not NodeType.START:
            yield Arrow(start, one.id)
    for one in captions:
        node = definition.nodes[one.id]
        if isinstance(node, ConditionalNode):
            for index, branch in enumerate(node.branches):
                if not branch.next:
                    yield Arrow(one.id, end, branch_label(node, index), "branch")
        elif node.ends or (one.id not in leaving and one.type is not NodeType.END):
            yield Arrow(one.id, end)


def caption(node_id: str, node: AnyNode) -> Caption:
    return Caption(node_id, node.type, detail(node), one_line(node.description or ""))


def detail(node: AnyNode) -> str:
    match node:
        case TaskNode():
            return node.task.handler
        case ConditionalNode():
            return bare(node.subject or (node.branches[0].condition if node.branches else "") or "")
        case FanOutNode():
            return node.task.handler
        case FanInNode():
            return f"{node.aggregation} {one_line(node.field)}" if node.field else node.aggregation
        case ApprovalNode():
            return one_line(", ".join(node.approvers)) or "waits for a decision"
        case WorkflowNode():
            return f"{node.workflow} v{node.workflow_version}" if node.workflow_version else node.workflow
        case _:
            return ""


def branch_label(node: AnyNode, index: int) -> str:
    """In the words of the file: the comparison, or true and false where the node itself holds the question."""
    if not isinstance(node, ConditionalNode):
        return ""
    branch = node.branches[index]
    if node.subject is None and len(node.branches) == 2:
        return "false" if branch.default else "true"
    return "default" if branch.default else bare(branch.condition or "")


def bare(expression: str) -> str:
    """`{{ x }}` shows as `x`."""
    text = one_line(expression)
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        return text[2:-2].strip()
    return text


def one_line(text: str) -> str:
    return visible(" ".join(text.split()))
