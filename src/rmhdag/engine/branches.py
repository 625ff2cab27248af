"""Conditionals: which branch is taken, now or when the node was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine.endings import fail_node
from rmhdag.engine.inputs import Output
from rmhdag.engine.settling import complete_node
from rmhdag.engine.slots import COMPLETED, Slot
from rmhdag.models.events import ErrorKind
from rmhdag.workflow.expressions import (
    CompiledTemplate,
    ExpressionError,
    Missing,
    compile_branch,
    compile_condition,
    truth,
)

if TYPE_CHECKING:
    from rmhdag.engine.plan import MakeTask, NodePlan
    from rmhdag.engine.run import JobRun
    from rmhdag.workflow.definition import ConditionalNode


def compile_conditional(
    node: NodePlan, definition: ConditionalNode, make_task: MakeTask
) -> list[CompiledTemplate | None]:
    subject = definition.subject
    node.branches = tuple(
        None
        if branch.condition is None
        else compile_condition(branch.condition)
        if subject is None
        else compile_branch(subject, branch.condition)
        for branch in definition.branches
    )
    return list(node.branches)


def choose_branch(run: JobRun, slot: Slot) -> None:
    branches = slot.plan.branches
    try:
        for index, template in enumerate(branches):
            if template is None or truth(template.evaluate(run.scope)):
                slot.taken = index
                break
    except (ExpressionError, Missing) as error:
        fail_node(run, slot, ErrorKind.TEMPLATE_ERROR, f"the condition cannot be decided: {error}")
        return
    if slot.taken is None:
        fail_node(run, slot, ErrorKind.TEMPLATE_ERROR, "no branch applies and there is no default branch")
        return
    branch = slot.plan.definition.branches[slot.taken]
    output = {"condition_result": branch.condition is not None, "taken": list(branch.next)}
    data = {"condition": branch.condition, "result": branch.condition is not None, "taken": list(branch.next)}
    complete_node(run, slot, Output(output), data)


def restore_branch(run: JobRun, slot: Slot, output: Any) -> None:
    if slot.status == COMPLETED:
        slot.taken = branch_taken(slot.plan, output)


def branch_taken(plan: NodePlan, output: Any) -> int | None:
    """Which branch a stored conditional took. Branches with the same targets are equal for every edge."""
    targets = output.get("taken") if isinstance(output, dict) else None
    for index, branch in enumerate(plan.definition.branches):
        if list(branch.next) == targets:
            return index
    return None
