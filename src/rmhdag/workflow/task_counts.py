"""How many tasks a job would have, as far as its inputs alone say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmhdag.workflow.definition import ConditionalNode, FanOutNode, TaskNode, WorkflowDefinition, WorkflowNode
from rmhdag.workflow.expressions import ExpressionError, Missing, compile_template
from rmhdag.workflow.expressions.budget import MAX_WORK
from rmhdag.workflow.preflight import InputScope


def count_tasks(definition: WorkflowDefinition, params: Mapping[str, Any]) -> int | None:
    """None if it depends on what the job finds: a branch, a list that a task makes, another workflow; or if all lists
    together take longer than one template of a job may.
    """
    nodes = definition.nodes.values()
    if any(isinstance(node, ConditionalNode | WorkflowNode) for node in nodes):
        return None
    tasks = sum(isinstance(node, TaskNode) and node.template_of is None for node in nodes)
    scope = InputScope(params)
    for node in nodes:
        if isinstance(node, FanOutNode):
            children = _count_children(node, scope)
            if children is None:
                return None
            tasks += children
    return tasks


def _count_children(node: FanOutNode, scope: InputScope) -> int | None:
    if not isinstance(node.source, str):
        return len(node.source)
    if scope.work > MAX_WORK:
        return None
    try:
        items = compile_template(node.source).evaluate(scope)
    except (ExpressionError, Missing):
        return None
    return len(items) if isinstance(items, list) else None
