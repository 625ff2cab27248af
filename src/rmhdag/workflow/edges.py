"""The edges of a definition, whichever of `next`, branches, `depends_on` and `source_node` they were written as.

Validation, engine and drawing all read the graph from here. START and END that the file leaves out have no edges, and
neither has a node that only describes the children of a fan-out.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rmhdag.workflow.definition import ConditionalNode, FanInNode, TaskNode, WorkflowDefinition

Group = Literal["all_of", "any_of"]


class Edge(NamedTuple):
    """`group` is the target's; `branch_index` is set on the edges of a conditional's branches."""

    source: str
    target: str
    group: Group
    branch_index: int | None = None


def definition_edges(definition: WorkflowDefinition) -> list[Edge]:
    """Each edge once, in the order of the file. A source in `any_of` is in that group however else it is written."""
    edges: dict[Edge, None] = {}
    joined: set[tuple[str, str]] = set()
    any_of = {target: frozenset(node.depends_on.any_of) for target, node in definition.nodes.items()}

    sources_of_fan_ins = {
        target: node.source_node for target, node in definition.nodes.items() if isinstance(node, FanInNode)
    }

    def add(source: str, target: str, branch_index: int | None = None) -> None:
        group: Group = "any_of" if source in any_of[target] else "all_of"
        if source == sources_of_fan_ins.get(target):
            group = "all_of"  # a fan-in never begins before its children are settled
        edges.setdefault(Edge(source, target, group, branch_index))
        joined.add((source, target))

    for source, node in definition.nodes.items():
        if isinstance(node, TaskNode) and node.template_of is not None:
            continue
        for target in node.next:
            add(source, target)
        if isinstance(node, ConditionalNode):
            for index, branch in enumerate(node.branches):
                for target in branch.next:
                    add(source, target, index)
    for target, node in definition.nodes.items():
        waits_for = [*node.depends_on.all_of, *node.depends_on.any_of]
        if isinstance(node, FanInNode):
            waits_for.append(node.source_node)
        for source in waits_for:
            # A branch that already leads here says more than the plain dependency.
            if (source, target) not in joined:
                add(source, target)
    return list(edges)
