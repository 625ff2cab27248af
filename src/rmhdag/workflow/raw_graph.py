"""The graph as written, mistakes included: which node names which, and where in the file.

Rules use the raw values, so that one broken node does not hide the problems of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.workflow.source_map import Path
from rmhdag.workflow.structure import node_type

Role = Literal["next", "depends_on", "child_node", "source_node"]


class Mention(NamedTuple):
    """Node `owner` names `name` at `path`."""

    owner: str
    name: str
    role: Role
    path: Path


class Ancestors:
    """The predecessors of each node, as one bit per node: sets would take 30 MB for a chain of 1,000 nodes."""

    def __init__(self, bits: dict[str, int], before: dict[str, int]) -> None:
        self._bits = bits
        self._before = before

    def comes_before(self, name: str, other: str) -> bool | None:
        """Whether `other` can start only after `name` is settled; None if a cycle makes that unknown."""
        before = self._before.get(other)
        return None if before is None else bool(before & self._bits[name])


class RawGraph:
    """Nodes by name, their mentions, and the resulting edges; edges to unknown nodes are omitted."""

    def __init__(self, data: dict[str, Any]) -> None:
        nodes = data.get("nodes")
        self.nodes: dict[str, dict[str, Any]] = (
            {name: node for name, node in nodes.items() if isinstance(node, dict)} if isinstance(nodes, dict) else {}
        )
        in_order: list[str] = list(nodes) if isinstance(nodes, dict) else []
        self.names = frozenset(in_order)
        self.types = {name: node_type(node) for name, node in self.nodes.items()}
        self.mentions = [mention for name, node in self.nodes.items() for mention in _mentions(name, node)]
        self.child_of: dict[str, str] = {}
        self._led_by: dict[str, list[str]] = {}
        self._depends_on: dict[str, list[str]] = {}
        for mention in self.mentions:
            if mention.role == "child_node" and mention.name in self.names:
                self.child_of.setdefault(mention.name, mention.owner)
            elif mention.role == "next":
                self._led_by.setdefault(mention.name, []).append(mention.owner)
            elif mention.role == "depends_on":
                self._depends_on.setdefault(mention.owner, []).append(mention.name)
        self.fan_out_of = {name: self._find_fan_out(name) for name in self._of_type(NodeType.FAN_IN)}
        self.edges: dict[tuple[str, str], Path] = {}
        for mention in self.mentions:
            if mention.role in ("next", "depends_on"):
                pair = (mention.owner, mention.name) if mention.role == "next" else (mention.name, mention.owner)
                self._add_edge(*pair, mention.path)
        for fan_in, fan_outs in self.fan_out_of.items():
            if len(fan_outs) == 1:
                self._add_edge(fan_outs[0], fan_in, ("nodes", fan_in))
        self.successors: dict[str, list[str]] = {name: [] for name in in_order}
        self.predecessors: dict[str, list[str]] = {name: [] for name in in_order}
        for source, target in self.edges:
            self.successors[source].append(target)
            self.predecessors[target].append(source)

    def _of_type(self, node_type: NodeType) -> list[str]:
        return [name for name, kind in self.types.items() if kind is node_type]

    def _add_edge(self, source: str, target: str, path: Path) -> None:
        are_nodes = source in self.names and target in self.names and source != target
        against_the_flow = self.types.get(target) is NodeType.START or self.types.get(source) is NodeType.END
        if are_nodes and not against_the_flow and source not in self.child_of and target not in self.child_of:
            self.edges.setdefault((source, target), path)

    @property
    def starts(self) -> list[str]:
        return self._of_type(NodeType.START)

    def _find_fan_out(self, fan_in: str) -> list[str]:
        """By `source_node`, else by the `next` of a fan-out, else by `depends_on`; several if that is not clear."""
        source = self.nodes[fan_in].get("source_node")
        if source is not None:
            fan_out = self.child_of.get(source, source) if isinstance(source, str) else ""
            return [fan_out] if self.types.get(fan_out) is NodeType.FAN_OUT else []
        for before in (self._led_by, self._depends_on):
            fan_outs = [
                name for name in dict.fromkeys(before.get(fan_in, ())) if self.types.get(name) is NodeType.FAN_OUT
            ]
            if fan_outs:
                return fan_outs
        return []

    def ancestors(self) -> Ancestors:
        """Nodes on or behind a cycle are omitted."""
        bits = {name: 1 << index for index, name in enumerate(self.predecessors)}
        before: dict[str, int] = {}
        waiting = {name: len(sources) for name, sources in self.predecessors.items()}
        ready = [name for name, count in waiting.items() if count == 0]
        while ready:
            name = ready.pop()
            before[name] = 0
            for source in self.predecessors[name]:
                before[name] |= before[source] | bits[source]
            for target in self.successors[name]:
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        return Ancestors(bits, before)

    def reachable_from(self, entries: list[str]) -> set[str]:
        reached = set(entries)
        pending = list(entries)
        while pending:
            for target in self.successors[pending.pop()]:
                if target not in reached:
                    reached.add(target)
                    pending.append(target)
        return reached


def _mentions(owner: str, node: dict[str, Any]) -> Iterator[Mention]:
    path: Path = ("nodes", owner)
    for field in ("next", "on_true", "on_false"):
        yield from _targets(owner, node.get(field), "next", (*path, field))
    branches = node.get("branches")
    if isinstance(branches, dict):  # not allowed, but the intention is clear: only that mistake is reported
        for key, named in branches.items():
            yield from _targets(owner, named, "next", (*path, "branches", key))
    elif isinstance(branches, list):
        for index, branch in enumerate(branches):
            if isinstance(branch, dict):
                yield from _targets(owner, branch.get("next"), "next", (*path, "branches", index, "next"))
    groups = node.get("depends_on")
    if isinstance(groups, dict):
        for group in ("all_of", "any_of"):
            yield from _targets(owner, groups.get(group), "depends_on", (*path, "depends_on", group))
    else:
        yield from _targets(owner, groups, "depends_on", (*path, "depends_on"))
    for role in ("child_node", "source_node"):
        named = node.get(role)
        if isinstance(named, str):
            yield Mention(owner, named, role, (*path, role))


def _targets(owner: str, value: Any, role: Role, path: Path) -> Iterator[Mention]:
    if isinstance(value, str):
        yield Mention(owner, value, role, path)
    elif isinstance(value, list):
        for index, name in enumerate(value):
            if isinstance(name, str):
                yield Mention(owner, name, role, (*path, index))
