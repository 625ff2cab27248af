"""The content of every picture of a workflow: a caption per node and the arrows between them.

A fan-out is one node, however many children it will have, and the node that describes its children is folded into it.
START and END appear even where the file leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.picture.node_looks import LOOKS, FoldedNode, bare, one_line
from rmhdag.workflow.edges import folded_edges
from rmhdag.workflow.implicit_nodes import END, START

if TYPE_CHECKING:
    from rmhdag.workflow.definition import WorkflowDefinition

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
    return outline_folded(definition.model_dump())


def outline_folded(workflow: Mapping[str, Any]) -> Outline:
    """The outline of a folded file, without a definition: a picture of a file needs no Pydantic."""
    nodes: Mapping[str, FoldedNode] = workflow["nodes"]
    folded = {node_id: node["template_of"] for node_id, node in nodes.items() if node.get("template_of")}
    arrows: dict[tuple[str, str], Arrow] = {}

    def add(arrow: Arrow) -> None:
        source, target = folded.get(arrow.source, arrow.source), folded.get(arrow.target, arrow.target)
        if source == target:
            return
        arrow_there = arrows.get((source, target))
        labels = [arrow_there.label] if arrow_there and arrow_there.label else []
        if arrow.label and arrow.label not in labels:
            labels.append(arrow.label)  # two branches to one node are one arrow
        arrows[source, target] = Arrow(source, target, ", ".join(labels), arrow.kind)

    for edge in folded_edges(nodes):
        label = branch_label(nodes[edge.source], edge.branch_index) if edge.branch_index is not None else ""
        kind: ArrowKind = "any_of" if edge.group == "any_of" else "branch" if label else "flow"
        add(Arrow(edge.source, edge.target, label, kind))
    captions = [caption(node_id, node) for node_id, node in nodes.items() if node_id not in folded]
    start = next((caption.id for caption in captions if caption.type is NodeType.START), None)
    end = next((caption.id for caption in captions if caption.type is NodeType.END), None)
    for arrow in implied_arrows(nodes, captions, set(arrows), start or START, end or END):
        add(arrow)
    before = [] if start else [Caption(START, NodeType.START)]
    after = [] if end else [Caption(END, NodeType.END)]
    title = f"{workflow['workflow_id']} v{workflow.get('version', 1)}"
    description = one_line(workflow.get("description") or workflow["name"])
    return Outline(title, description, (*before, *captions, *after), tuple(arrows.values()))


def implied_arrows(
    nodes: Mapping[str, FoldedNode], captions: list[Caption], links: set[tuple[str, str]], start: str, end: str
) -> Iterator[Arrow]:
    """Arrows that a file may omit: from START to nodes without predecessors, from nodes without successors to END."""
    reached = {target for _, target in links}
    leaving = {source for source, _ in links}
    for caption in captions:
        if caption.id not in reached and caption.type is not NodeType.START:
            yield Arrow(start, caption.id)
    for caption in captions:
        node = nodes[caption.id]
        if caption.type is NodeType.CONDITIONAL:
            for index, branch in enumerate(node["branches"]):
                if not branch["next"]:
                    yield Arrow(caption.id, end, branch_label(node, index), "branch")
        elif node.get("ends") or (caption.id not in leaving and caption.type is not NodeType.END):
            yield Arrow(caption.id, end)


def caption(node_id: str, node: FoldedNode) -> Caption:
    return Caption(node_id, node["type"], LOOKS[node["type"]].detail(node), one_line(node.get("description") or ""))


def branch_label(node: FoldedNode, index: int) -> str:
    """The label as written in the file: a name or comparison, or true and false if the node has the condition."""
    branch = node["branches"][index]
    if branch.get("name"):
        return one_line(branch["name"])
    if node.get("subject") is None and len(node["branches"]) == 2:
        return "false" if branch.get("default") else "true"
    return "default" if branch.get("default") else bare(branch.get("condition") or "")
