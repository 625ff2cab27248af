"""Converts the written form of a checked workflow: folds shorthands, applies `defaults`, pairs fan-ins.

The result has the values for the definition's models, without the models' own defaults.
"""

from __future__ import annotations

from typing import Any

from rmhdag.models.states import NodeType
from rmhdag.workflow.implicit_nodes import END
from rmhdag.workflow.node_forms import form_of
from rmhdag.workflow.node_rules import NodeRules
from rmhdag.workflow.raw_graph import RawGraph

_COMMON = ("description",)
_TASK_FIELDS = ("handler", "params", "start_timeout_seconds")


def fold(data: dict[str, Any], graph: RawGraph, rules: NodeRules) -> dict[str, Any]:
    """Requires data without problems."""
    head: dict[str, Any] = {
        key: data[key]
        for key in (
            "workflow_id",
            "name",
            "version",
            "description",
            "produces",
            "review",
            "inputs",
            "checks",
            "outputs",
        )
        if key in data
    }
    nodes = {name: _node(name, node, graph, rules) for name, node in graph.nodes.items()}
    return {"name": data["workflow_id"], **head, "nodes": nodes}


def _node(name: str, node: dict[str, Any], graph: RawGraph, rules: NodeRules) -> dict[str, Any]:
    kind = graph.types[name]
    assert kind is not None
    folded: dict[str, Any] = {"type": kind, **_taken(node, (*_COMMON, *form_of(kind).plain))}
    if "next" in node:
        folded["next"], folded["ends"] = _targets(node["next"], graph)
    if "depends_on" in node:
        folded["depends_on"] = _groups(node["depends_on"])
    match kind:
        case NodeType.TASK:
            folded["task"] = _task(name, node, rules)
            if name in graph.child_of:
                folded["template_of"] = graph.child_of[name]
        case NodeType.CONDITIONAL:
            folded.update(_branches(node, graph))
            folded["ends"] = any(END in _listed(target) for target in _branch_targets(node)) and END not in graph.names
        case NodeType.FAN_OUT:
            child = node.get("child_node")
            folded["task"] = (
                _task(name, node["task"], rules) if child is None else _task(child, graph.nodes[child], rules)
            )
        case NodeType.FAN_IN:
            folded["source_node"] = graph.fan_out_of[name][0]
        case NodeType.WORKFLOW:
            folded["workflow_version"] = node.get("workflow_version", node.get("version"))
            retry = _retry(node)
            if retry is not None:
                folded["retry"] = retry
        case _:
            pass
    return folded


def _taken(node: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: node[field] for field in fields if field in node}


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _targets(value: Any, graph: RawGraph) -> tuple[list[str], bool]:
    """Declared nodes, and whether an undeclared END is among the targets."""
    names = _listed(value)
    return [name for name in names if name in graph.names], END in names and END not in graph.names


def _groups(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, dict):
        return {"all_of": _listed(value)}
    return {group: _listed(names) for group, names in value.items()}


def _branch_targets(node: dict[str, Any]) -> list[Any]:
    return [node.get("on_true"), node.get("on_false"), *(branch["next"] for branch in node.get("branches", ()))]


def _branches(node: dict[str, Any], graph: RawGraph) -> dict[str, Any]:
    """The default goes last, wherever it was written: it is taken only if no other branch is."""
    if "condition" in node:
        written = [
            {"condition": node["condition"], "next": node["on_true"]},
            {"default": True, "next": node["on_false"]},
        ]
    else:
        written = sorted(node["branches"], key=lambda branch: "default" in branch)
    branches = [{**branch, "next": _targets(branch["next"], graph)[0]} for branch in written]
    return {"subject": node.get("condition_field"), "branches": branches}


def _task(name: str, task: dict[str, Any], rules: NodeRules) -> dict[str, Any]:
    defaults = rules.defaults
    spec = {**_taken(task, _TASK_FIELDS), "queue": rules.queue_of(name, task)}
    timeout = task.get("timeout_seconds", defaults.get("timeout_seconds"))
    if timeout is not None:
        spec["timeout_seconds"] = timeout
    retry = _retry(task) or _retry(defaults)
    if retry is not None:
        spec["retry"] = retry
    return spec


def _retry(owner: dict[str, Any]) -> dict[str, Any] | None:
    """`retries: n` is n attempts after the first; `fixed` is the original system's word for `none`."""
    if "retries" in owner:
        return {"max_attempts": owner["retries"] + 1}
    retry: dict[str, Any] | None = owner.get("retry")
    return {**retry, "backoff": "none"} if retry and retry.get("backoff") == "fixed" else retry
