"""How a settled node wakes, skips or leaves alone the nodes behind it (SPEC E3).

An edge is waiting, live or dead. The `all_of` group is met when all its edges are settled and one is live, the `any_of`
group at its first live edge; a group whose edges are all dead skips the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine import endings, fan_outs, tasks, waiting
from rmhdag.engine.effects import JobChanged, NodesCreated
from rmhdag.engine.inputs import Output, ReusedNode, Start
from rmhdag.engine.outputs import keep_read_paths, summarise
from rmhdag.engine.slots import CODES, COMPLETED, PENDING, READY, SKIPPED, Slot
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.states import JobStatus, NodeType
from rmhdag.workflow.expressions import ExpressionError, Missing, truth

if TYPE_CHECKING:
    from rmhdag.engine.plan import NodePlan
    from rmhdag.engine.run import JobRun


def start_job(run: JobRun, given: Start) -> None:
    if run.status is not JobStatus.PENDING:
        return
    run.status = JobStatus.RUNNING
    run.started_at = run.now
    run.effects.append(JobChanged(JobStatus.RUNNING))
    run.effects.append(NodesCreated(run.plan.node_ids, run.plan.max_retries))
    first = run.plan.nodes[run.plan.roots[0]].node_id if run.plan.roots else None
    run.record(EventType.JOB_STARTED, EventStatus.INFO, None, {"first_node": first})
    run.reused_children = given.reused_children
    if given.warnings:
        run.count_warnings(given.warnings)
    for node_id, reused in given.reused.items():
        _reuse(run, run.slots[run.plan.by_id[node_id].index], reused)
    for index in run.plan.roots:
        if run.slots[index].status == PENDING:
            activate(run, run.slots[index])


def _reuse(run: JobRun, slot: Slot, reused: ReusedNode) -> None:
    """Take over an outcome of the job that this one reruns; its edges settle as they did then."""
    value = _row_value(reused.output)
    engine_made = value if slot.task is None or slot.plan.type is NodeType.FAN_OUT else None
    if CODES[reused.status] == COMPLETED:
        run.move(slot, READY)
    run.move(slot, CODES[reused.status])
    if slot.plan.type is NodeType.CONDITIONAL:
        slot.taken = branch_taken(slot.plan, value)
    keep_read_paths(run, slot.plan, reused.output)
    run.write(slot, output=engine_made, reused_task_id=reused.task_id)
    run.settled.append(slot)


def spread(run: JobRun) -> None:
    """Settle the edges behind every node that has just become completed or skipped."""
    queue = run.settled
    slots = run.slots
    while queue:
        slot = queue.popleft()
        if run.ending is not None:
            continue
        completed = slot.status == COMPLETED
        for target, is_any, branches in slot.plan.out:
            behind = slots[target]
            live = completed and (branches is None or slot.taken in branches)
            behind.settle_edge(is_any, live)
            if behind.status == PENDING and run.ending is None:
                _decide(run, behind)


def _decide(run: JobRun, slot: Slot) -> None:
    plan = slot.plan
    if (plan.all_count and not slot.all_waiting and not slot.all_live) or (
        plan.any_count and not slot.any_waiting and not slot.any_live
    ):
        skip(run, slot, "conditional_branch_not_taken")
    elif not slot.all_waiting and (not plan.any_count or slot.any_live):
        activate(run, slot)


def skip(run: JobRun, slot: Slot, reason: str) -> None:
    run.move(slot, SKIPPED)
    slot.reason = reason
    run.write(slot)
    run.record(EventType.NODE_SKIPPED, EventStatus.INFO, slot.node_id, {"reason": reason})
    run.settled.append(slot)


def activate(run: JobRun, slot: Slot) -> None:
    """All dependencies are met: begin whatever this kind of node does."""
    run.move(slot, READY)
    node_type = slot.plan.type
    if node_type is NodeType.TASK:
        tasks.prepare_task(run, slot)
    elif node_type is NodeType.CONDITIONAL:
        _choose_branch(run, slot)
    elif node_type is NodeType.FAN_OUT:
        fan_outs.begin_fan_out(run, slot)
    elif node_type is NodeType.FAN_IN:
        fan_outs.begin_fan_in(run, slot)
    elif node_type is NodeType.APPROVAL:
        waiting.request_approval(run, slot)
    elif node_type is NodeType.WORKFLOW:
        waiting.request_child_job(run, slot)
    else:
        complete_node(run, slot, None, {})


def _choose_branch(run: JobRun, slot: Slot) -> None:
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


def branch_taken(plan: NodePlan, output: Any) -> int | None:
    """Which branch a stored conditional took. Branches with the same targets are the same to every edge."""
    taken = output.get("taken") if isinstance(output, dict) else None
    for index, branch in enumerate(plan.definition.branches):
        if list(branch.next) == taken:
            return index
    return None


def complete_node(run: JobRun, slot: Slot, output: Output | None, data: dict[str, Any]) -> None:
    """A node that needed no worker is done; its output, if any, is kept on its row."""
    run.move(slot, COMPLETED)
    slot.deadline_at = None
    keep_read_paths(run, slot.plan, output)
    made = _row_value(output)
    run.write(slot, output=made)
    if made is not None and not data:
        data = {"output_summary": summarise(made)}
    run.record(EventType.NODE_COMPLETED, EventStatus.SUCCESS, slot.node_id, data)
    run.settled.append(slot)


def _row_value(output: Output | None) -> Any:
    """What a node row holds of an output: the value, or where it is."""
    if output is None:
        return None
    return output.value if output.reference is None else output.reference.as_json()


def fail_node(run: JobRun, slot: Slot, kind: ErrorKind, message: str, error: dict[str, Any] | None = None) -> None:
    """A node failed for good: the job starts to end."""
    tasks.write_failure(run, slot, kind, message, error=error)
    endings.begin_failing(run, slot, message, error)
