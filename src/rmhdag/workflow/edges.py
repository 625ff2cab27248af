"""The edges of a definition, whichever of `next`, branches, `depends_on` and `source_node` they were written as.

Validation, engine and drawing all read the graph from here. START and END that the file leaves out have no edges, and
neither has a node that only describes the children of a fan-out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rmhdag.models.states import NodeType

if TYPE_CHECKING:
    from rmhdag.workflow.definition import AnyNode, WorkflowDefinition

Group = Literal["all_of", "any_of"]


class Edge(NamedTuple):
    """`group` is the target's; `branch_index` is set on the edges of a conditional's branches."""

    source: str
    target: str
    group: Group
    branch_index: int | None = None


class Links(NamedTuple):
    """The other nodes that a node names; `branches` are the targets of each branch."""

    next: Iterable[str] = ()
    branches: Iterable[Iterable[str]] = ()
    all_of: Iterable[str] = ()
    any_of: Iterable[str] = ()
    gathers: str | None = None


def definition_edges(definition: WorkflowDefinition) -> list[Edge]:
    """Each edge once, in the order of the file. A source in `any_of` is in that group even if it is named elsewhere."""
    return _join({name: _links(node) for name, node in definition.nodes.items()})


def folded_edges(nodes: Mapping[str, Mapping[str, Any]]) -> list[Edge]:
    """The same without a definition, see `normalise`."""
    return _join({name: _folded_links(node) for name, node in nodes.items()})


def _links(node: AnyNode) -> Links:
    groups = node.depends_on
    if node.type is NodeType.TASK and node.template_of is not None:
        return Links(all_of=groups.all_of, any_of=groups.any_of)
    branches = [branch.next for branch in node.branches] if node.type is NodeType.CONDITIONAL else ()
    gathers = node.source_node if node.type is NodeType.FAN_IN else None
    return Links(node.next, branches, groups.all_of, groups.any_of, gathers)


def _folded_links(node: Mapping[str, Any]) -> Links:
    groups = node.get("depends_on", {})
    all_of, any_of = groups.get("all_of", ()), groups.get("any_of", ())
    if node.get("template_of") is not None:
        return Links(all_of=all_of, any_of=any_of)
    branches = [branch["next"] for branch in node.get("branches", ())]
    return Links(node.get("next", ()), branches, all_of, any_of, node.get("source_node"))


def _join(nodes: Mapping[str, Links]) -> list[Edge]:
    edges: dict[Edge, None] = {}
    joined: set[tuple[str, str]] = set()
    any_of = {target: frozenset(links.any_of) for target, links in nodes.items()}

    def add(source: str, target: str, branch_index: int | None = None) -> None:
        group: Group = "any_of" if source in any_of[target] else "all_of"
        if source == nodes[target].gathers:
            group = "all_of"  # a fan-in never begins before its children are settled
        edges.setdefault(Edge(source, target, group, branch_index))
        joined.add((source, target))

    for source, links in nodes.items():
        for target in links.next:
            add(source, target)
        for index, targets in enumerate(links.branches):
            for target in targets:
                add(source, target, index)
    for target, links in nodes.items():
        gathered = () if links.gathers is None else (links.gathers,)
        for source in (*links.all_of, *links.any_of, *gathered):
            # A branch that already leads here is more specific than the plain dependency.
            if (source, target) not in joined:
                add(source, target)
    return list(edges)
