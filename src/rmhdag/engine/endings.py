"""How a job ends: completed when all nodes are settled, or drained after a failure or a cancellation.

`ending` is set first; from then on nothing starts. The job becomes terminal with the last task that is settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine.effects import (
    ChildJobCancelled,
    ChildrenCancelled,
    CommandAnswered,
    ContinueLater,
    JobChanged,
    ParentNotified,
    TasksWithdrawn,
)
from rmhdag.engine.inputs import CancelJob
from rmhdag.engine.outputs import resolve_result
from rmhdag.engine.settling import cancel_node, skip, write_failure
from rmhdag.engine.slots import (
    CANCEL_READY,
    CANCELLED,
    PENDING,
    READY,
    RUNNING,
    TERMINAL,
    FanOutState,
    Slot,
)
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.states import JobEnding, JobStatus
from rmhdag.workflow.expressions import ExpressionError, Missing

if TYPE_CHECKING:
    from rmhdag.engine.run import JobRun

NAMED_NODES = 100


def complete_job(run: JobRun) -> None:
    """Every node is settled and none failed: compute the result."""
    try:
        result = resolve_result(run)
    except (ExpressionError, Missing) as error:
        run.ending = JobEnding.FAILED
        run.error_message = f"the outputs of the workflow cannot be resolved: {error}"[:MESSAGE_CHARACTERS]
        end_job(run)
        return
    run.status = JobStatus.COMPLETED
    run.effects.append(JobChanged(JobStatus.COMPLETED, None, result))
    total = len(run.slots) + sum(slot.fan.total for slot in run.slots if slot.fan is not None)
    seconds = (run.now - run.started_at).total_seconds() if run.started_at is not None else None
    data = {"duration_seconds": seconds, "node_count": total}
    run.record(EventType.JOB_COMPLETED, EventStatus.SUCCESS, None, data)
    _notify_parent(run, result, None)


def fail_node(run: JobRun, slot: Slot, kind: ErrorKind, message: str, error: dict[str, Any] | None = None) -> None:
    """A node failed for good: the job starts to end."""
    write_failure(run, slot, kind, message, error=error)
    begin_failing(run, slot, message, error)


def begin_failing(run: JobRun, slot: Slot, message: str, error: dict[str, Any] | None = None) -> None:
    """A node failed for good. The first failure makes the job fail, later ones are only recorded."""
    if len(run.failed_nodes) < NAMED_NODES:
        run.failed_nodes.append(slot.node_id)
    if run.ending is None:
        run.error_message = f"node {slot.node_id!r} failed: {message}"[:MESSAGE_CHARACTERS]
        run.error = error
        _begin_ending(run, JobEnding.FAILED)


def cancel_job(run: JobRun, command: CancelJob) -> None:
    """Who asks for what has been done has it, so a cancel may be repeated."""
    is_cancelled = run.ending is JobEnding.CANCELLED or run.status is JobStatus.CANCELLED
    if run.is_terminal:
        run.effects.append(CommandAnswered(is_cancelled, f"the job is already {run.status}"))
        return
    if run.ending is not None:
        state = "being cancelled" if is_cancelled else f"ending as {run.ending}"
        run.effects.append(CommandAnswered(is_cancelled, f"the job is already {state}"))
        return
    reason = f": {command.reason}" if command.reason else ""
    run.error_message = f"cancelled by {command.cancelled_by}{reason}"[:MESSAGE_CHARACTERS]
    if run.status is JobStatus.PENDING:
        run.ending = JobEnding.CANCELLED
        end_job(run)
    else:
        _begin_ending(run, JobEnding.CANCELLED)
    run.effects.append(CommandAnswered(True, "the job is being cancelled"))


def _begin_ending(run: JobRun, ending: JobEnding) -> None:
    run.ending = ending
    run.effects.append(JobChanged(JobStatus.RUNNING, ending, None, run.error_message, run.error))
    for lane in run.lanes.values():
        lane.waiting.clear()
        lane.fan_outs.clear()
    for slot in run.slots:
        if not TERMINAL[slot.status]:
            _stop_node(run, slot)
    if run.in_flight:
        run.effects.append(TasksWithdrawn())


def _stop_node(run: JobRun, slot: Slot) -> None:
    """Nodes without a running task end now; the others end with their task, child job or children."""
    if slot.fan is not None:
        if slot.status == RUNNING:
            slot.fan.cancel_cursor = 0
            run.cancelling += 1
            cancel_next_children(run, slot.fan)
    elif slot.child_job_id is not None and slot.status == RUNNING:
        run.effects.append(ChildJobCancelled(slot.child_job_id, f"the parent job is ending as {run.ending}"))
    elif slot.status == PENDING and run.ending is JobEnding.FAILED:
        skip(run, slot, "job_failed")
    elif slot.status in (PENDING, READY) or slot.task is None:
        cancel_node(run, slot)


def cancel_next_children(run: JobRun, fan: FanOutState) -> None:
    """Cancel one chunk of the children that were never sent or wait for a retry."""
    if fan.cancel_cursor is None:
        return
    start, stop = fan.cancel_cursor, min(fan.cancel_cursor + run.plan.cancel_chunk, fan.expanded)
    chunk = fan.statuses[start:stop]
    waiting = chunk.count(READY)
    if waiting:
        fan.statuses[start:stop] = chunk.translate(CANCEL_READY)
        for counts in (run.counts, fan.counts):
            counts[READY] -= waiting
            counts[CANCELLED] += waiting
        run.effects.append(ChildrenCancelled(fan.slot.node_id, start, stop))
    if stop < fan.expanded:
        fan.cancel_cursor = stop
        run.effects.append(ContinueLater(fan.slot.node_id))
        return
    fan.cancel_cursor = None
    forget_unborn_children(run, fan)
    fan.active = {index: child for index, child in fan.active.items() if fan.statuses[index] != CANCELLED}
    run.cancelling -= 1
    close_cancelled_fan_out(run, fan)


def forget_source(run: JobRun, fan: FanOutState) -> None:
    """Free the items and the reused children after expansion: they may be as large as the rest of the job."""
    fan.items = None
    fan.shared = {}
    if fan.reused:
        fan.reused = {}
        fan_out_id = fan.slot.node_id
        run.reused_children = {key: outputs for key, outputs in run.reused_children.items() if key != fan_out_id}


def forget_unborn_children(run: JobRun, fan: FanOutState) -> None:
    """Children that were never expanded have no rows: they are removed from the counts."""
    forget_source(run, fan)
    run.counts[PENDING] -= fan.counts[PENDING]
    fan.counts[PENDING] = 0


def close_cancelled_fan_out(run: JobRun, fan: FanOutState) -> None:
    if fan.cancel_cursor is None and fan.in_flight == 0 and fan.settled == fan.expanded:
        cancel_node(run, fan.slot, children_cancelled=fan.counts[CANCELLED])


def end_job(run: JobRun) -> None:
    """No task is running: the job becomes terminal."""
    if run.ending is JobEnding.CANCELLED:
        run.status = JobStatus.CANCELLED
        run.record(EventType.JOB_CANCELLED, EventStatus.WARNING, None, {"reason": run.error_message})
    else:
        run.status = JobStatus.FAILED
        data = {"failed_nodes": list(run.failed_nodes)}
        run.record(EventType.JOB_FAILED, EventStatus.FAILURE, None, data, None, run.error_message)
    run.effects.append(JobChanged(run.status, run.ending, None, run.error_message, run.error))
    _notify_parent(run, None, run.error_message)


def _notify_parent(run: JobRun, result: dict[str, Any] | None, error_message: str | None) -> None:
    if run.parent_job_id is not None and run.parent_node_id is not None:
        run.effects.append(
            ParentNotified(
                run.parent_job_id,
                run.parent_node_id,
                run.status,
                result,
                error_message,
                run.error,
                run.warnings is not None,
            )
        )
