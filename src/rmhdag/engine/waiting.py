"""Nodes that wait without a worker: a decision by a person, or the end of a child job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from rmhdag.engine import tasks
from rmhdag.engine.effects import (
    ApprovalDecided,
    ApprovalRequested,
    ChildJobCancelled,
    ChildJobRequested,
    CommandAnswered,
)
from rmhdag.engine.endings import fail_node
from rmhdag.engine.inputs import ChildJobEnded, Decided, Output
from rmhdag.engine.outputs import resolve_params
from rmhdag.engine.reasons import Reason, ReasonCode
from rmhdag.engine.settling import cancel_node, complete_node
from rmhdag.engine.slots import RUNNING, STATUSES, Slot
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.limits import CHILD_DEPTH
from rmhdag.models.states import JobStatus, NodeType
from rmhdag.workflow.expressions import CompiledTemplate, ExpressionError, Missing, compile_template, compile_value

if TYPE_CHECKING:
    from rmhdag.engine.plan import MakeTask, NodePlan
    from rmhdag.engine.run import JobRun
    from rmhdag.workflow.definition import ApprovalNode, WorkflowNode

CHILD_JOBS = UUID("6f1d3c52-8a55-5a0e-9d8e-51f4f1f6a2c7")
SHOWN_MESSAGE = 500  # a template may grow to 1 MB; an event and a reason are read by people


def compile_approval(node: NodePlan, definition: ApprovalNode, make_task: MakeTask) -> list[CompiledTemplate | None]:
    node.params = compile_value(definition.params)
    node.message = compile_template(definition.message) if definition.message is not None else None
    return [node.params, node.message]


def compile_child_job(node: NodePlan, definition: WorkflowNode, make_task: MakeTask) -> list[CompiledTemplate | None]:
    node.params = compile_value(definition.params)
    node.retry = definition.retry
    return [node.params]


def request_approval(run: JobRun, slot: Slot) -> None:
    plan = slot.plan
    run.record_ready(slot)
    try:
        assert plan.params is not None
        params = resolve_params(run, plan.params, run.scope)
        message = approval_message(run, slot)
    except (ExpressionError, Missing) as error:
        fail_node(run, slot, ErrorKind.TEMPLATE_ERROR, f"the parameters cannot be resolved: {error}")
        return
    run.move(slot, RUNNING)
    if plan.definition.timeout_seconds is not None:
        slot.deadline_at = run.after(plan.definition.timeout_seconds)
    run.write(slot, input_params=params)
    ask_person(run, slot, message, params)
    data: dict[str, object] = {"waits_for": "approval"}
    if message is not None:
        data["message"] = message[:SHOWN_MESSAGE]
    if plan.definition.approvers:
        data["approvers"] = list(plan.definition.approvers)
    run.record(EventType.NODE_RUNNING, EventStatus.INFO, slot.node_id, data)


def ask_person(run: JobRun, slot: Slot, message: str | None, params: dict[str, Any]) -> None:
    approvers = slot.plan.definition.approvers
    run.effects.append(ApprovalRequested(slot.node_id, message, params, approvers, slot.deadline_at))


def approval_message(run: JobRun, slot: Slot) -> str | None:
    message = slot.plan.message
    return None if message is None else str(message.evaluate(run.scope))


def message_after_reload(run: JobRun, slot: Slot) -> str | None:
    """None also if it reads an output that was small when the node started and is not in memory now."""
    try:
        return approval_message(run, slot)
    except (ExpressionError, Missing):
        return None


def ask_again(run: JobRun, slot: Slot) -> None:
    """Request the decision again: the row may be older than the table of approvals."""
    if slot.status == RUNNING:
        ask_person(run, slot, message_after_reload(run, slot), {})


def decided(run: JobRun, answer: Decided) -> None:
    """Only a waiting approval accepts a decision, only one, and only from those whom the workflow names."""
    slot = run.find(answer.node_id)
    if slot is None or slot.plan.type is not NodeType.APPROVAL:
        run.effects.append(CommandAnswered(False, f"the job has no approval {answer.node_id!r}"))
        return
    if slot.status != RUNNING or run.ending is not None:
        state = "ending" if run.ending is not None else f"{STATUSES[slot.status]}"
        run.effects.append(CommandAnswered(False, f"{answer.node_id} is {state}, not waiting for a decision"))
        return
    approvers = slot.plan.definition.approvers
    if approvers and answer.decided_by not in approvers:
        names = ", ".join(approvers)
        run.effects.append(CommandAnswered(False, f"{answer.decided_by} may not decide {answer.node_id}; {names} may"))
        return
    run.effects.append(ApprovalDecided(answer.approved, answer.decided_by, answer.reason, answer.clearance))
    if not answer.approved and slot.plan.definition.on_reject == "fail":
        reason = f": {answer.reason}" if answer.reason else ""
        fail_node(run, slot, ErrorKind.REJECTED, f"rejected by {answer.decided_by}{reason}")
    else:
        decision = {
            "decision": "approved" if answer.approved else "rejected",
            "decided_by": answer.decided_by,
            "reason": answer.reason,
            **({} if answer.clearance is None else {"clearance": answer.clearance}),
        }
        complete_node(run, slot, Output(decision), {})
    run.effects.append(CommandAnswered(True, "approved" if answer.approved else "rejected"))


def request_child_job(run: JobRun, slot: Slot) -> None:
    """Start the child job of this attempt; its id follows from the attempt, so a repeat finds the same job."""
    plan = slot.plan
    run.record_ready(slot)
    if run.depth >= CHILD_DEPTH:
        message = f"child jobs may be nested {CHILD_DEPTH} deep at most; does the workflow run itself?"
        fail_node(run, slot, ErrorKind.NON_RETRYABLE, message)
        return
    try:
        assert plan.params is not None
        params = resolve_params(run, plan.params, run.scope)
    except (ExpressionError, Missing) as error:
        fail_node(run, slot, ErrorKind.TEMPLATE_ERROR, f"the parameters cannot be resolved: {error}")
        return
    run.move(slot, RUNNING)
    run.in_flight += 1
    task_id = run.task_id(slot)
    slot.child_job_id = child_job_id(task_id)
    slot.next_attempt_at = None
    if plan.definition.timeout_seconds is not None:
        slot.deadline_at = run.after(plan.definition.timeout_seconds)
    run.write(slot, task_id=task_id, input_params=params)
    run.effects.append(
        ChildJobRequested(
            slot.child_job_id,
            slot.node_id,
            slot.attempt,
            plan.definition.workflow,
            plan.definition.workflow_version,
            params,
            run.depth + 1,
        )
    )
    run.record(EventType.NODE_RUNNING, EventStatus.INFO, slot.node_id, {"waits_for": slot.child_job_id}, task_id)


def child_job_id(task_id: str) -> str:
    return uuid5(CHILD_JOBS, task_id).hex


def restore_child_job(run: JobRun, slot: Slot, output: Any) -> None:
    if slot.status == RUNNING:
        run.in_flight += 1
        slot.child_job_id = child_job_id(run.task_id(slot))


def child_job_ended(run: JobRun, ending: ChildJobEnded) -> None:
    slot = run.find(ending.node_id)
    if slot is None or slot.status != RUNNING or slot.child_job_id != ending.child_job_id:
        return
    run.in_flight -= 1
    if ending.status is JobStatus.COMPLETED:
        if ending.warnings:
            run.count_warnings(ending.warnings)
        complete_node(run, slot, ending.output, {"child_job_id": ending.child_job_id})
    elif run.ending is not None:
        cancel_node(run, slot, child_job_id=ending.child_job_id)
    else:
        message = f"child job {ending.child_job_id} {ending.status}: {ending.error_message or 'no message'}"
        tasks.fail_attempt(run, slot, ErrorKind.CHILD_JOB_FAILED, message, run.task_id(slot), error=ending.error)


def wait_timed_out(run: JobRun, slot: Slot) -> None:
    """The decision or the child job did not arrive in time; a late one finds the node ended."""
    if slot.status != RUNNING or run.ending is not None:
        return
    message = f"it waited longer than its {slot.plan.definition.timeout_seconds} s"
    if slot.child_job_id is None:
        fail_node(run, slot, ErrorKind.TIMEOUT, message)
        return
    run.in_flight -= 1
    run.effects.append(ChildJobCancelled(slot.child_job_id, message))
    slot.child_job_id = None
    slot.deadline_at = None
    tasks.fail_attempt(run, slot, ErrorKind.TIMEOUT, message, run.task_id(slot))


def explain_approval(run: JobRun, slot: Slot) -> Reason:
    return approval_reason(run.job_id, slot.plan, message_after_reload(run, slot))


def approval_reason(job_id: str, node: NodePlan, message: str | None) -> Reason:
    approvers = ", ".join(node.definition.approvers)
    text = f"Waiting for a person{f' (approvers: {approvers})' if approvers else ''} to approve or reject"
    text += f": {' '.join(message[:SHOWN_MESSAGE].split())}" if message else "."
    return ReasonCode.WAITS_FOR_APPROVAL, text, f"`rmhdag decide {job_id} {node.node_id} approve`, or `reject`."


def explain_child_job(run: JobRun, slot: Slot) -> Reason:
    return ReasonCode.WAITS_FOR_CHILD_JOB, f"Waiting for child job {slot.child_job_id}.", None
