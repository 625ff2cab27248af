"""The slow, obvious look: what rows and definition say must be so, without asking the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmhdag.lab.simulation.rows import NodeRow
from rmhdag.models.states import NODE_TERMINAL, NodeStatus
from rmhdag.workflow.definition import FanInNode, WorkflowDefinition
from rmhdag.workflow.edges import definition_edges


class Dependencies:
    """Who waits for whom, read from the definition alone."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        self._edges: dict[str, dict[tuple[str, str], bool]] = {}  # target → (source, group) → by a branch only
        for edge in definition_edges(definition):
            edges = self._edges.setdefault(edge.target, {})
            key = (edge.source, edge.group)
            edges[key] = edges.get(key, True) and edge.branch_index is not None

    def may_start(self, node_id: str, rows: dict[str, NodeRow]) -> bool:
        """All edges of `all_of` are settled and one is live; one edge of `any_of` is live."""
        all_of = self._states(node_id, "all_of", rows)
        any_of = self._states(node_id, "any_of", rows)
        return (not all_of or (None not in all_of and True in all_of)) and (not any_of or True in any_of)

    def must_skip(self, node_id: str, rows: dict[str, NodeRow]) -> bool:
        """No edge of a group can become live any more."""
        groups = (self._states(node_id, "all_of", rows), self._states(node_id, "any_of", rows))
        return any(group and all(state is False for state in group) for group in groups)

    def _states(self, target: str, group: str, rows: dict[str, NodeRow]) -> list[bool | None]:
        """True: live, False: dead, None: waiting."""
        states: list[bool | None] = []
        for (source, in_group), by_branch in self._edges.get(target, {}).items():
            if in_group != group:
                continue
            row = rows[source]
            if row.status is NodeStatus.SKIPPED:
                states.append(False)
            elif row.status is not NodeStatus.COMPLETED:
                states.append(None)
            else:
                states.append(not by_branch or target in row.output["taken"])
        return states


def expected_aggregate(node: FanInNode, outputs: Sequence[Any], failures: int) -> dict[str, Any] | None:
    """What a fan-in makes of its completed children, by index; None where the outputs do not fit the mode."""
    aggregate: dict[str, Any] = {}
    if node.field == "nothing" and outputs:
        return None
    match node.aggregation:
        case "collect":
            aggregate["results"] = list(outputs)
        case "concat":
            aggregate["results"] = [item for output in outputs for item in output["items"]]
        case "sum":
            aggregate["total"] = sum(output["n"] for output in outputs)
        case "first":
            aggregate["result"] = outputs[0] if outputs else None
        case "last":
            aggregate["result"] = outputs[-1] if outputs else None
        case "merge":
            aggregate["result"] = {key: value for output in outputs for key, value in output.items()}
    aggregate["count"] = len(outputs)
    if node.tolerate is not None:
        aggregate["failures"] = failures
    return aggregate


def tolerated_failures(node: FanInNode, total: int) -> int:
    if node.tolerate is None:
        return 0
    if node.tolerate.count is not None:
        return node.tolerate.count
    return int(total * (node.tolerate.percent or 0) / 100)


def all_settled(children: Sequence[NodeRow], total: int) -> bool:
    return len(children) == total and all(row.status in NODE_TERMINAL for row in children)
