"""What any picture of a workflow shows: a caption per node and the arrows between them, whatever draws it.

A fan-out is one node, however many children it will have, and the node that describes its children is folded into it.
START and END appear even where the file leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.workflow.edges import folded_edges
from rmhdag.workflow.implicit_nodes import END, START
from rmhdag.workflow.text_width import visible

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


# A node as `normalise` makes it, or as its model gives it back.
FoldedNode = Mapping[str, Any]


def outline(definition: WorkflowDefinition) -> Outline:
    return outline_folded(definition.model_dump())


def outline_folded(workflow: Mapping[str, Any]) -> Outline:
    """Of a definition that need not be made for it: a picture of a file is drawn without Pydantic."""
    nodes: Mapping[str, FoldedNode] = workflow["nodes"]
    folded = {node_id: node["template_of"] for node_id, node in nodes.items() if node.get("template_of")}
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

    for edge in folded_edges(nodes):
        label = branch_label(nodes[edge.source], edge.branch_index) if edge.branch_index is not None else ""
        kind: ArrowKind = "any_of" if edge.group == "any_of" else "branch" if label else "flow"
        add(Arrow(edge.source, edge.target, label, kind))
    captions = [caption(node_id, node) for node_id, node in nodes.items() if node_id not in folded]
    start = next((one.id for one in captions if one.type is NodeType.START), None)
    end = next((one.id for one in captions if one.type is NodeType.END), None)
    for arrow in implied_arrows(nodes, captions, set(arrows), start or START, end or END):
        add(arrow)
    before = [] if start else [Caption(START, NodeType.START)]
    after = [] if end else [Caption(END, NodeType.END)]
    title = f"{workflow['workflow_id']} v{workflow.get('version', 1)}"
    description = one_line(workflow.get("description") or workflow["name"])
    return Outline(title, description, (*before, *captions, *after), tuple(arrows.values()))


def implied_arrows(
    nodes: Mapping[str, FoldedNode], captions: list[Caption], known: set[tuple[str, str]], start: str, end: str
) -> Iterator[Arrow]:
    """What a file need not write: nodes that nothing leads to begin, nodes that lead nowhere end."""
    reached = {target for _, target in known}
    leaving = {source for source, _ in known}
    for one in captions:
        if one.id not in reached and one.type is not NodeType.START:
            yield Arrow(start, one.id)
    for one in captions:
        node = nodes[one.id]
        if one.type is NodeType.CONDITIONAL:
            for index, branch in enumerate(node["branches"]):
                if not branch["next"]:
                    yield Arrow(one.id, end, branch_label(node, index), "branch")
        elif node.get("ends") or (one.id not in leaving and one.type is not NodeType.END):
            yield Arrow(one.id, end)


def caption(node_id: str, node: FoldedNode) -> Caption:
    return Caption(node_id, node["type"], detail(node), one_line(node.get("description") or ""))


def detail(node: FoldedNode) -> str:
    match node["type"]:
        case NodeType.TASK | NodeType.FAN_OUT:
            return str(node["task"]["handler"])
        case NodeType.CONDITIONAL:
            first: Mapping[str, Any] = next(iter(node["branches"]), {})
            return bare(node.get("subject") or first.get("condition") or "")
        case NodeType.FAN_IN:
            how = node.get("aggregation", "collect")
            return f"{how} {one_line(node['field'])}" if node.get("field") else str(how)
        case NodeType.APPROVAL:
            return one_line(", ".join(node.get("approvers", ()))) or "waits for a decision"
        case NodeType.WORKFLOW:
            version = node.get("workflow_version")
            return f"{node['workflow']} v{version}" if version else str(node["workflow"])
        case _:
            return ""


def branch_label(node: FoldedNode, index: int) -> str:
    """In the words of the file: name or comparison, or true and false where the node itself holds the question."""
    branch = node["branches"][index]
    if branch.get("name"):
        return one_line(branch["name"])
    if node.get("subject") is None and len(node["branches"]) == 2:
        return "false" if branch.get("default") else "true"
    return "default" if branch.get("default") else bare(branch.get("condition") or "")


def bare(expression: str) -> str:
    """`{{ x }}` shows as `x`."""
    text = one_line(expression)
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        return text[2:-2].strip()
    return text


def one_line(text: str) -> str:
    return visible(" ".join(text.split()))
