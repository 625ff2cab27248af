"""Rules between nodes: names, targets, starts and ends, fan-outs and fan-ins, cycles, reachability."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from rmhdag.models.limits import MAX_NODES
from rmhdag.models.states import NodeType
from rmhdag.workflow.implicit_nodes import END, START
from rmhdag.workflow.node_names import NODE_NAME, NODE_NAME_REMEDY
from rmhdag.workflow.problems import did_you_mean, shorten
from rmhdag.workflow.raw_graph import Mention, RawGraph
from rmhdag.workflow.report import Report

_NAME = re.compile(NODE_NAME[1:-1])
# More names would not help a reader.
MOST_NAMED = 20
_CHILD_NAME = re.compile(r".*__[0-9]+")


def check_graph(graph: RawGraph, report: Report) -> None:
    if len(graph.names) > MAX_NODES:
        return
    _check_names(graph, report)
    for mention in graph.mentions:
        if report.is_full:
            return
        _check_mention(mention, graph, report)
    _refuse_repeated_targets(graph, report)
    _check_starts(graph, report)
    _check_children(graph, report)
    _check_fan_ins(graph, report)
    cycles = _find_cycles(graph)
    for cycle in cycles:
        _report_cycle(cycle, graph, report)
    _check_reachability(graph, cycles, report)


def _check_names(graph: RawGraph, report: Report) -> None:
    by_lower: dict[str, str] = {}
    for name in graph.successors:
        path = ("nodes", name)
        if not _NAME.fullmatch(name):
            report.add_key(
                path,
                "bad-name",
                f"a node cannot be called `{shorten(name)}`",
                NODE_NAME_REMEDY,
            )
        elif _CHILD_NAME.fullmatch(name):
            report.add_key(
                path,
                "bad-name",
                f"the name `{name}` is kept for the children of a fan-out",
                "Do not end a name with `__` and digits",
            )
    for name in sorted(graph.names):
        twin = by_lower.setdefault(name.lower(), name)
        if twin != name:
            later = max((twin, name), key=lambda node: report.source_map.key_at(("nodes", node)))
            other = twin if later == name else name
            report.add_key(
                ("nodes", later),
                "case-twin",
                f"`{later}` and `{other}` differ only in case",
                "Rename one of them",
            )
    for name, kind in graph.types.items():
        for reserved, node_type in ((START, NodeType.START), (END, NodeType.END)):
            if name == reserved and kind not in (node_type, None):
                report.add_key(
                    ("nodes", name),
                    "bad-name",
                    f"the name `{reserved}` is kept for the node of type {node_type.value}",
                    f"Rename the node, or write `type: {node_type.value}`",
                )


def _check_mention(mention: Mention, graph: RawGraph, report: Report) -> None:
    owner, name, role, path = mention
    if name not in graph.names:
        if name == END and role == "next":
            return
        if name == START and role == "depends_on":
            report.add(
                path,
                "unknown-target",
                "START is not a node of this file",
                "Remove it; nodes without dependencies start",
            )
            return
        if not _NAME.fullmatch(name):
            return  # the wrong form of the name is reported already
        names = chain(graph.names, [END]) if role == "next" else graph.names
        report.add(path, "unknown-target", f"there is no node `{name}`", did_you_mean(name, names))
    elif name == owner:
        report.add(path, "self-dependency", f"node `{name}` depends on itself", "Name another node, or remove it")
    elif role in ("next", "depends_on"):
        _check_neighbour(mention, graph, report)


def _check_neighbour(mention: Mention, graph: RawGraph, report: Report) -> None:
    _, name, role, path = mention
    fan_out = graph.child_of.get(name)
    if fan_out is not None:
        report.add(
            path,
            "child-as-target",
            f"`{name}` describes the children of `{fan_out}` and is not a separate step",
            f"Name `{fan_out}` or its fan-in instead",
        )
    elif role == "next" and graph.types.get(name) is NodeType.START:
        report.add(
            path, "leads-to-start", f"`{name}` is the start of the workflow, nothing leads to it", "Name another node"
        )
    elif role == "depends_on" and graph.types.get(name) is NodeType.END:
        report.add(path, "follows-end", f"`{name}` is the end of the workflow, nothing follows it", "Name another node")


def _refuse_repeated_targets(graph: RawGraph, report: Report) -> None:
    keys: set[tuple[object, ...]] = set()
    for mention in graph.mentions:
        if not isinstance(mention.path[-1], int):
            continue
        key = (*mention.path[:-1], mention.name)
        if key in keys:
            report.add(
                mention.path, "repeated-target", f"`{shorten(mention.name)}` is already in this list", "Name it once"
            )
        keys.add(key)


def _check_starts(graph: RawGraph, report: Report) -> None:
    for name in graph.starts[1:]:
        report.add_key(
            ("nodes", name),
            "second-start",
            f"the workflow already starts at `{graph.starts[0]}`",
            f"Remove `{name}`; one start may lead to several nodes",
        )


def _check_children(graph: RawGraph, report: Report) -> None:
    """The node that describes a fan-out's children is a task, belongs to one fan-out, and has no edges."""
    for mention in graph.mentions:
        if mention.role != "child_node" or mention.name not in graph.names or mention.name == mention.owner:
            continue
        name, owner = mention.name, mention.owner
        kind = graph.types.get(name)
        if kind is NodeType.FAN_OUT:
            report.add(
                mention.path,
                "nested-fan-out",
                f"the child `{name}` is itself a fan-out",
                "Make the child a task, or run a workflow that fans out as a workflow node",
            )
        elif kind not in (NodeType.TASK, None):
            report.add(
                mention.path, "child-not-task", f"the child `{name}` is not a task", "Name a node with a `handler`"
            )
        if graph.child_of[name] != owner:
            report.add(
                mention.path,
                "shared-child",
                f"`{name}` already describes the children of `{graph.child_of[name]}`",
                "Give each fan-out a child node of its own",
            )
    for name, fan_out in graph.child_of.items():
        for field in ("next", "depends_on"):
            if field in graph.nodes.get(name, {}):
                report.add_key(
                    ("nodes", name, field),
                    "child-with-edges",
                    f"`{name}` describes the children of `{fan_out}` and cannot have `{field}`",
                    f"Move `{field}` to `{fan_out}`",
                )


def _check_fan_ins(graph: RawGraph, report: Report) -> None:
    for fan_in, fan_outs in graph.fan_out_of.items():
        path = ("nodes", fan_in)
        source = graph.nodes[fan_in].get("source_node")
        if len(fan_outs) > 1:
            report.add_key(
                path,
                "ambiguous-fan-in",
                f"`{fan_in}` could gather {' or '.join(f'`{name}`' for name in fan_outs[:MOST_NAMED])}",
                "Add `source_node` with one of them",
            )
        elif not fan_outs and source is None:
            report.add_key(
                path,
                "fan-in-without-fan-out",
                f"no fan-out leads to the fan-in `{fan_in}`",
                "Add `source_node` with the name of a fan-out",
            )
        elif not fan_outs and isinstance(source, str) and source in graph.names:
            report.add(
                (*path, "source_node"),
                "fan-in-without-fan-out",
                f"`{source}` is neither a fan-out nor the child of one",
                "Name a node of type fan_out",
            )


def _find_cycles(graph: RawGraph) -> list[list[str]]:
    """One cycle of each strongly connected component, as a list of names: its other cycles are the same mistake."""
    place = {name: index for index, name in enumerate(graph.successors)}
    cycles: list[list[str]] = []
    for knot in sorted(_knots(graph), key=lambda names: min(place[name] for name in names)):
        first = min(knot, key=place.__getitem__)
        cycles.append(_cycle_through(first, set(knot), graph))
    return cycles


def _knots(graph: RawGraph) -> Iterable[list[str]]:
    """Nodes that all lead to each other: Tarjan's strongly connected components, in linear time, without recursion."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    heights: dict[str, int] = {}
    stack: list[str] = []
    closed: set[str] = set()
    for root in graph.successors:
        if root in numbers:
            continue
        numbers[root] = lowest[root] = len(numbers)
        heights[root] = len(stack)
        stack.append(root)
        path = [(root, iter(graph.successors[root]))]
        while path:
            name, rest = path[-1]
            target = next(rest, None)
            if target is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[name])
                if lowest[name] == numbers[name]:
                    knot = stack[heights[name] :]
                    del stack[heights[name] :]
                    closed.update(knot)
                    if len(knot) > 1:
                        yield knot
            elif target not in numbers:
                numbers[target] = lowest[target] = len(numbers)
                heights[target] = len(stack)
                stack.append(target)
                path.append((target, iter(graph.successors[target])))
            elif target not in closed:
                lowest[name] = min(lowest[name], numbers[target])


def _cycle_through(first: str, knot: set[str], graph: RawGraph) -> list[str]:
    """The shortest path from a node back to itself within its component."""
    came_from: dict[str, str] = {}
    pending = [first]
    for name in pending:
        for target in graph.successors[name]:
            if target == first:
                cycle = [name]
                while cycle[-1] != first:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if target in knot and target not in came_from:
                came_from[target] = name
                pending.append(target)
    return []


def _report_cycle(cycle: list[str], graph: RawGraph, report: Report) -> None:
    closing = graph.edges[cycle[-1], cycle[0]]
    steps = cycle if len(cycle) <= 20 else [*cycle[:10], "…", *cycle[-9:]]
    report.add(
        closing,
        "cycle",
        f"these nodes wait for each other: {' → '.join([*steps, cycle[0]])}",
        "Remove one of these edges",
    )


def _check_reachability(graph: RawGraph, cycles: list[list[str]], report: Report) -> None:
    """With a start node, all others must be reachable from it; without one, nodes without predecessors start."""
    for name, kind in graph.types.items():
        if kind is NodeType.END and not graph.predecessors[name]:
            report.add_key(
                ("nodes", name), "unreachable", f"no node leads to `{name}`", f"Write `next: {name}` in the last node"
            )
    if not graph.starts:
        return
    in_cycles = graph.reachable_from([name for cycle in cycles for name in cycle])
    reached = graph.reachable_from(graph.starts) | in_cycles | set(graph.child_of)
    lost = [name for name in graph.nodes if name not in reached and graph.types[name] is not NodeType.END]
    for name in lost:
        if any(source in lost for source in graph.predecessors[name]):
            continue  # behind another unreachable node: the same mistake
        report.add_key(
            ("nodes", name),
            "unreachable",
            f"no path leads from `{graph.starts[0]}` to `{name}`",
            f"Name `{name}` in the `next` of a node, or give it `depends_on`",
        )
