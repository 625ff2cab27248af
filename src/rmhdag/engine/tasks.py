"""The life of a task as the engine sees it: dispatch within the window, start, report, loss, time-out, retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine import endings, fan_outs
from rmhdag.engine.dispatch import fill_lane, offer, queue_task
from rmhdag.engine.effects import (
    CommandAnswered,
    NodeChanged,
    RecordsPublished,
    TaskDeadLettered,
    TaskRequeued,
    TaskRevoked,
)
from rmhdag.engine.inputs import (
    RetryNode,
    TaskCheckpointed,
    TaskLost,
    TaskReported,
    TaskSnoozed,
    TaskStarted,
    TaskWithdrawn,
    Timer,
    TimerDue,
)
from rmhdag.engine.outputs import keep_read_paths, resolve_params, summarise
from rmhdag.engine.retry import retry_delay_seconds
from rmhdag.engine.settling import record_failure, write_failure
from rmhdag.engine.slots import (
    CANCELLED,
    COMPLETED,
    DISPATCHED,
    FAILED,
    READY,
    RUNNING,
    STATUSES,
    Lane,
    Slot,
)
from rmhdag.models.events import NEVER_RETRIED, ErrorKind, EventStatus, EventType
from rmhdag.models.handler_result import HandlerError
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.states import JobStatus, NodeStatus
from rmhdag.workflow.expressions import CompiledTemplate, ExpressionError, Missing

if TYPE_CHECKING:
    from rmhdag.engine.plan import MakeTask, NodePlan
    from rmhdag.engine.run import JobRun
    from rmhdag.workflow.definition import TaskNode

MAX_LEASE_LOSSES = 3
# The worker enforces a time-out itself; the engine acts only if the worker did not.
TIMEOUT_GRACE_SECONDS = 10.0
MAX_ATTEMPTS_EVER = 250
# Failures whose category does not come from a handler.
CODES_OF_KINDS = {ErrorKind.TIMEOUT: "TIMEOUT"}


def compile_task(node: NodePlan, definition: TaskNode, make_task: MakeTask) -> list[CompiledTemplate | None]:
    node.task = make_task(node, definition.task)
    node.retry = definition.task.retry
    return [node.task.params]


def prepare_task(run: JobRun, slot: Slot) -> None:
    """Resolve the parameters of a node that has just become ready, then send it or let it wait for room."""
    task = slot.task
    assert task is not None
    run.record_ready(slot)
    try:
        params = resolve_params(run, task.params, run.scope)
    except (ExpressionError, Missing) as error:
        fail_attempt(run, slot, ErrorKind.TEMPLATE_ERROR, f"the parameters cannot be resolved: {error}", None)
        return
    lane = run.lane(task.queue)
    if lane.unclaimed < lane.limit:
        queue_task(run, slot, lane, params)
    else:
        run.write(slot, input_params=params)
        lane.waiting.append(slot)


def _current(run: JobRun, node_id: str, attempt: int) -> Slot | None:
    """The slot if this is its current attempt; any other attempt is late, stale or a duplicate."""
    slot = run.find(node_id)
    if slot is None or slot.attempt != attempt or slot.task is None:
        return None
    return slot if slot.status in (DISPATCHED, RUNNING) else None


def _is_over(slot: Slot, lease_epoch: int) -> bool:
    """Whether the lease has ended, or has a running successor."""
    return lease_epoch <= slot.over_epoch or lease_epoch < slot.running_epoch


def _release(run: JobRun, slot: Slot) -> Lane:
    """The task is no longer queued or running, whatever its outcome; call before its status changes."""
    assert slot.task is not None
    lane = run.lane(slot.task.queue)
    if slot.status == DISPATCHED:
        lane.unclaimed -= 1
    run.in_flight -= 1
    if slot.parent is not None:
        slot.parent.in_flight -= 1
        offer(run, slot.parent)
    slot.deadline_at = None
    return lane


def task_started(run: JobRun, start: TaskStarted) -> None:
    """The time limit belongs to the lease: a newer lease has its whole time, even if the last one's end is unknown.

    Each start is consumed once, together with the rows that show it; so after loading, the next start is of a newer
    lease.
    """
    slot = _current(run, start.node_id, start.attempt)
    if slot is None or start.lease_epoch <= max(slot.over_epoch, slot.running_epoch):
        return
    assert slot.task is not None
    lane = run.lane(slot.task.queue)
    if slot.status == DISPATCHED:
        lane.unclaimed -= 1
        run.move(slot, RUNNING)
    slot.running_epoch = start.lease_epoch
    slot.deadline_at = run.after(slot.task.timeout_seconds + TIMEOUT_GRACE_SECONDS)
    run.write(slot, task_id=start.task_id)
    run.record(EventType.NODE_RUNNING, EventStatus.INFO, slot.node_id, {"worker_id": start.worker_id}, start.task_id)
    fill_lane(run, lane)


def task_reported(run: JobRun, report: TaskReported) -> None:
    slot = _current(run, report.node_id, report.attempt)
    if slot is None:
        return
    if report.success and report.records and run.ending is not None:
        # Completed would mean published, but an ending job publishes nothing: a rerun runs this task again.
        _cancel_task(run, slot, report.task_id)
        return
    lane = _release(run, slot)
    if report.success:
        _complete_task(run, slot, report)
    else:
        fail_attempt(
            run,
            slot,
            report.error_kind or ErrorKind.HANDLER_ERROR,
            report.error_message or "the handler reported a failure without a message",
            report.task_id,
            report.duration_ms,
            report.error,
        )
    fill_lane(run, lane)


def _complete_task(run: JobRun, slot: Slot, report: TaskReported) -> None:
    run.move(slot, COMPLETED)
    run.effects.append(
        NodeChanged(
            slot.node_id,
            NodeStatus.COMPLETED,
            slot.attempt,
            report.task_id,
            slot.lease_losses,
            duration_ms=report.duration_ms,
        )
    )
    output = report.output
    data: dict[str, Any] = {}
    if output is not None:
        summary = {"size_bytes": output.reference.size_bytes} if output.reference else summarise(output.value)
        data = {"output_summary": summary}
    if report.warnings:
        data["warnings"] = sum(warning["count"] for warning in report.warnings)
        run.count_warnings(report.warnings)
    run.record(
        EventType.NODE_COMPLETED,
        EventStatus.SUCCESS,
        slot.node_id,
        data,
        report.task_id,
        None,
        report.duration_ms,
    )
    if report.records:
        run.effects.append(RecordsPublished(slot.node_id, report.task_id, report.records))
    if slot.parent is None:
        keep_read_paths(run, slot.plan, output)
        run.settled.append(slot)
    else:
        fan_outs.child_settled(run, slot.parent)


def fail_attempt(
    run: JobRun,
    slot: Slot,
    kind: ErrorKind,
    message: str,
    task_id: str | None,
    duration_ms: int | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    """An attempt failed: schedule the next one, or fail the node for good."""
    message = message[:MESSAGE_CHARACTERS]
    if error is None and kind in CODES_OF_KINDS:
        error = HandlerError(code=CODES_OF_KINDS[kind], message=message).model_dump(mode="json")
    never_again = kind in NEVER_RETRIED or (error is not None and not error["retryable"])
    retry = slot.task.retry if slot.task is not None else slot.plan.retry
    allowed = min(retry.max_attempts + slot.extra_attempts, MAX_ATTEMPTS_EVER)
    if run.ending is not None or never_again or slot.attempt >= allowed:
        write_failure(run, slot, kind, message, task_id, duration_ms, error)
        if slot.parent is not None:
            fan_outs.child_failed(run, slot.parent, slot, error)
        else:
            endings.begin_failing(run, slot, message, error)
        return
    record_failure(run, slot, kind, message, task_id, duration_ms, error, will_retry=True)
    run.move(slot, FAILED)
    _schedule_retry(run, slot, retry_delay_seconds(retry, slot.attempt, run.jitter), message, error=error)


def _schedule_retry(
    run: JobRun,
    slot: Slot,
    delay_seconds: float,
    message: str | None,
    params: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    run.move(slot, READY)
    slot.attempt += 1
    slot.lease_losses = 0
    slot.running_epoch = slot.over_epoch = -1
    slot.deadline_at = None
    due = run.after(delay_seconds)
    run.record(
        EventType.NODE_RETRYING,
        EventStatus.INFO,
        slot.node_id,
        {"retry_count": slot.attempt - 1, "next_attempt_at": due.isoformat()},
    )
    slot.next_attempt_at = due
    run.write(slot, error_message=message, error=error, input_params=params)
    if delay_seconds <= 0:
        _retry_is_due(run, slot)


def _retry_is_due(run: JobRun, slot: Slot) -> None:
    slot.next_attempt_at = None
    slot.plan.behaviour.retry(run, slot)


def retry_task(run: JobRun, slot: Slot) -> None:
    assert slot.task is not None
    lane = run.lane(slot.task.queue)
    if slot.parent is not None:
        slot.parent.due.append(slot)
        offer(run, slot.parent)
    else:
        lane.waiting.append(slot)
    fill_lane(run, lane)
    if slot.status == READY:
        run.write(slot)


def task_snoozed(run: JobRun, snooze: TaskSnoozed) -> None:
    slot = _current(run, snooze.node_id, snooze.attempt)
    if slot is None or _is_over(slot, snooze.lease_epoch):
        return
    if run.ending is not None:
        run.effects.append(TaskRevoked(snooze.task_id))
        _cancel_task(run, slot, snooze.task_id)
        return
    slot.over_epoch = snooze.lease_epoch
    _back_to_queue(run, slot)
    run.write(slot, task_id=snooze.task_id)
    data = {
        "retry_count": slot.attempt - 1,
        "next_attempt_at": run.after(snooze.delay_seconds).isoformat(),
        "snoozed": True,
    }
    if snooze.reason is not None:
        data["reason"] = snooze.reason
    run.record(EventType.NODE_RETRYING, EventStatus.INFO, slot.node_id, data, snooze.task_id)


def _back_to_queue(run: JobRun, slot: Slot) -> None:
    """The same attempt waits in its queue again."""
    assert slot.task is not None
    if slot.status == RUNNING:
        run.lane(slot.task.queue).unclaimed += 1
    run.move(slot, READY)
    run.move(slot, DISPATCHED)
    slot.deadline_at = None if slot.task.start_timeout_seconds is None else run.after(slot.task.start_timeout_seconds)


def task_lost(run: JobRun, loss: TaskLost) -> None:
    slot = _current(run, loss.node_id, loss.attempt)
    if slot is None or _is_over(slot, loss.lease_epoch):
        return
    slot.over_epoch = loss.lease_epoch
    slot.lease_losses += loss.started
    data = {"worker_id": loss.worker_id, "lease_losses": slot.lease_losses}
    run.record(EventType.NODE_LOST, EventStatus.WARNING, slot.node_id, data, loss.task_id)
    if slot.lease_losses >= MAX_LEASE_LOSSES:
        message = f"its worker was lost {slot.lease_losses} times, last {loss.worker_id}; the task may be what kills it"
        run.effects.append(TaskRevoked(loss.task_id))
        assert slot.task is not None
        run.effects.append(TaskDeadLettered(loss.task_id, slot.node_id, slot.task.queue, message))
        lane = _release(run, slot)
        fail_attempt(run, slot, ErrorKind.LEASE_LOST, message, loss.task_id)
        fill_lane(run, lane)
    elif run.ending is not None:
        run.effects.append(TaskRevoked(loss.task_id))
        _cancel_task(run, slot, loss.task_id)
    else:
        _back_to_queue(run, slot)
        run.write(slot, task_id=loss.task_id)
        run.effects.append(TaskRequeued(loss.task_id, loss.lease_epoch, slot.lease_losses))


def task_checkpointed(run: JobRun, checkpoint: TaskCheckpointed) -> None:
    slot = _current(run, checkpoint.node_id, checkpoint.attempt)
    if slot is None or _is_over(slot, checkpoint.lease_epoch):
        return
    run.write(slot, task_id=checkpoint.task_id, checkpoint_phase=checkpoint.phase, checkpoint_data=checkpoint.data)
    run.record(
        EventType.NODE_CHECKPOINT, EventStatus.INFO, slot.node_id, {"phase": checkpoint.phase}, checkpoint.task_id
    )


def task_withdrawn(run: JobRun, withdrawal: TaskWithdrawn) -> None:
    slot = _current(run, withdrawal.node_id, withdrawal.attempt)
    if slot is not None and run.ending is not None:
        _cancel_task(run, slot, withdrawal.task_id)


def _cancel_task(run: JobRun, slot: Slot, task_id: str) -> None:
    _release(run, slot)
    run.move(slot, CANCELLED)
    run.write(slot, task_id=task_id)
    run.record(EventType.NODE_CANCELLED, EventStatus.INFO, slot.node_id, {}, task_id)
    if slot.parent is not None:
        fan_outs.child_settled(run, slot.parent)


def timer_due(run: JobRun, alarm: TimerDue) -> None:
    slot = run.find(alarm.node_id)
    if slot is None or slot.attempt != alarm.attempt or run.status is not JobStatus.RUNNING:
        return
    if alarm.timer is Timer.RETRY:
        due = slot.next_attempt_at
        if run.ending is None and slot.status == READY and due is not None and due <= run.now:
            _retry_is_due(run, slot)
        return
    if slot.deadline_at is None or slot.deadline_at > run.now:
        return
    slot.plan.behaviour.time_out(run, slot)


def time_out_task(run: JobRun, slot: Slot) -> None:
    if slot.status not in (DISPATCHED, RUNNING):
        return
    assert slot.task is not None
    if slot.status == RUNNING:
        kind = ErrorKind.TIMEOUT
        message = f"it ran longer than its {slot.task.timeout_seconds} s"
    else:
        kind = ErrorKind.START_TIMEOUT
        message = f"no worker started it within {slot.task.start_timeout_seconds} s"
    task_id = run.task_id(slot)
    # After a change of owner it is not known under which lease the task runs.
    lease_epoch = slot.running_epoch if slot.status == RUNNING and slot.running_epoch > 0 else None
    run.effects.append(TaskRevoked(task_id, lease_epoch))
    lane = _release(run, slot)
    fail_attempt(run, slot, kind, message, task_id)
    fill_lane(run, lane)


def retry_node(run: JobRun, command: RetryNode) -> None:
    """A person's command in a running job: skip the wait, or give a failed child one more attempt."""
    refusal = _why_not_retry(run, command.node_id)
    if refusal is not None:
        run.effects.append(CommandAnswered(False, refusal))
        return
    slot = run.find(command.node_id)
    if slot is not None:
        _retry_is_due(run, slot)
    else:
        child = run.find_child(command.node_id)
        assert child is not None
        try:
            params = fan_outs.resolve_params_again(run, *child)
        except (ExpressionError, Missing) as error:
            refusal = (
                f"the parameters of {command.node_id} cannot be resolved, so it would fail again: {error}; "
                f"correct the workflow or its inputs and submit a new job"
            )
            run.effects.append(CommandAnswered(False, refusal))
            return
        slot = fan_outs.revive_child(run, *child)
        slot.extra_attempts += 1
        _schedule_retry(run, slot, 0.0, None, params)
    run.effects.append(CommandAnswered(True, f"{command.node_id} is tried again, attempt {slot.attempt}"))


def _why_not_retry(run: JobRun, node_id: str) -> str | None:
    if run.status is not JobStatus.RUNNING:
        return f"the job is {run.status}; rerun it as a new job instead"
    if run.ending is not None:
        return "the job is ending; wait for its end, then rerun it as a new job"
    slot = run.find(node_id)
    if slot is not None:
        waits = slot.status == READY and slot.next_attempt_at is not None
        return None if waits else f"{node_id} is {STATUSES[slot.status]}, not waiting for a retry"
    child = run.find_child(node_id)
    if child is None:
        return f"the job has no node {node_id!r}"
    fan, index = child
    if fan.statuses[index] != FAILED:
        return f"{node_id} is {STATUSES[fan.statuses[index]]}, not failed"
    if fan.slot.status != RUNNING:
        return f"{fan.slot.node_id} has ended; rerun the job as a new one instead"
    return None
