"""What a rerun runs again and what it reuses: a new job, never a changed history (SPEC E8)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rmhdag.engine.plan import NodePlan, Plan
from rmhdag.models.states import NodeStatus, NodeType


class RerunError(Exception):
    """The request for a rerun is not valid; the message says why."""


@dataclass(slots=True, frozen=True)
class RerunScope:
    """Nodes that run again, nodes whose outcome is reused, and fan-outs that keep their finished children."""

    again: tuple[str, ...]
    reused: tuple[str, ...]
    keeps_children: tuple[str, ...]


def plan_rerun(
    plan: Plan,
    statuses: Mapping[str, NodeStatus],
    *,
    old_params: Mapping[str, Any],
    new_params: Mapping[str, Any],
    from_nodes: Collection[str] | None = None,
    everything: bool = False,
) -> RerunScope:
    """Decide which nodes a rerun of a finished job runs again.

    By default these are the nodes that did not succeed; `from_nodes` adds nodes by name; a changed parameter adds every
    node that reads it. All nodes behind them run again too, because their inputs may change.
    """
    unknown = [node_id for node_id in from_nodes or () if node_id not in plan.by_id]
    if unknown:
        raise RerunError(f"the workflow has no node {unknown[0]!r}; its nodes are {', '.join(plan.node_ids[:20])}")
    changed = {name for name in {*old_params, *new_params} if old_params.get(name) != new_params.get(name)}
    again: set[int] = set()
    skipped: set[int] = set()
    for node in plan.nodes:
        status = statuses.get(node.node_id, NodeStatus.PENDING)
        if status is NodeStatus.SKIPPED:
            # By a branch, or only because the job failed: the edges decide anew. Completed nodes behind it may stay.
            skipped.add(node.index)
        if (
            everything
            or status not in (NodeStatus.COMPLETED, NodeStatus.SKIPPED)
            or (from_nodes is not None and node.node_id in from_nodes)
            or _reads_any(node, changed)
        ):
            again.add(node.index)
    size = -1
    while len(again) != size:
        size = len(again)
        again |= _fan_outs_to_mend(plan, again | skipped)
        _add_behind(plan, again)
    again |= skipped
    return RerunScope(
        again=tuple(node.node_id for node in plan.nodes if node.index in again),
        reused=tuple(node.node_id for node in plan.nodes if node.index not in again),
        keeps_children=tuple(
            node.node_id
            for node in plan.nodes
            if node.index in again
            and node.type is NodeType.FAN_OUT
            and not everything
            and node.node_id not in (from_nodes or ())
            and _same_items(plan, node, again, changed)
        ),
    )


def _reads_any(node: NodePlan, names: set[str]) -> bool:
    return any(
        # `{{ inputs }}` reads all of them.
        reference.root == "inputs" and (not reference.path or reference.path[0] in names)
        for reference in node.references
    )


def _fan_outs_to_mend(plan: Plan, again: set[int]) -> set[int]:
    """A fan-in needs its children in the same job; if they made it fail, it can succeed only if they run again."""
    return {plan.nodes[index].source_index for index in again if plan.nodes[index].type is NodeType.FAN_IN}


def _add_behind(plan: Plan, again: set[int]) -> None:
    stack = list(again)
    while stack:
        for target, _, _ in plan.nodes[stack.pop()].out:
            if target not in again:
                again.add(target)
                stack.append(target)


def _same_items(plan: Plan, fan_out: NodePlan, again: set[int], changed: set[str]) -> bool:
    """Finished children are reused only if the values that the source and the parameters read cannot have changed."""
    for reference in fan_out.references:
        if reference.root == "inputs" and reference.path[0] in changed:
            return False
        if reference.root == "nodes":
            source = plan.by_id.get(str(reference.path[0]))
            if source is None or source.index in again:
                return False
    return True
