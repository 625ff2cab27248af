"""What must hold between one input and the effects that the engine answers with."""

from __future__ import annotations

from datetime import datetime

from rmhdag.engine.effects import CommandAnswered, Effect, NodeChanged, TaskQueued
from rmhdag.engine.inputs import ChildJobEnded, Decided, Input, TaskLost, TaskReported, TaskSnoozed, Timer, TimerDue
from rmhdag.engine.run import JobRun
from rmhdag.engine.slots import COMPLETED, FAILED
from rmhdag.lab.simulation.violation import Violation
from rmhdag.models.events import NEVER_RETRIED, ErrorKind
from rmhdag.models.states import JobStatus, NodeStatus


def check_decision(
    run: JobRun,
    windows: dict[str, int],
    job_input: Input,
    effects: list[Effect],
    *,
    was_ending: bool,
    was_due: bool,
) -> None:
    """A report is taken at its word. A queued task had room; lost tasks come back without asking."""
    if not was_due and effects:
        raise Violation("E5 timers wait", f"{run.job_id}: {job_input} was not due and led to {effects}")
    if isinstance(job_input, TaskReported | ChildJobEnded):
        changes = [effect for effect in effects if isinstance(effect, NodeChanged)]
        for change in [change for change in changes if change.node_id == job_input.node_id][:1]:
            _check_outcome(run, job_input, change, was_ending=was_ending)
    if isinstance(job_input, Decided) and any(
        isinstance(effect, CommandAnswered) and effect.applied for effect in effects
    ):
        fails = not job_input.approved and run.plan.by_id[job_input.node_id].definition.on_reject == "fail"
        slot = run.find(job_input.node_id)
        if slot is None or slot.status != (FAILED if fails else COMPLETED):
            raise Violation("decisions are obeyed", f"{run.job_id}/{job_input.node_id}: {job_input}")
    if isinstance(job_input, TaskLost | TaskSnoozed):
        return
    for queue in dict.fromkeys(effect.queue for effect in effects if isinstance(effect, TaskQueued)):
        unclaimed = run.lane(queue).unclaimed
        if unclaimed > windows[queue]:
            message = f"{run.job_id}: {unclaimed} unclaimed tasks in queue {queue}, {windows[queue]} allowed"
            raise Violation("windows hold", message)


def is_due(run: JobRun, job_input: TimerDue, now: datetime) -> bool:
    slot = run.find(job_input.node_id)
    at = None if slot is None else slot.next_attempt_at if job_input.timer is Timer.RETRY else slot.deadline_at
    return at is not None and at <= now


def _check_outcome(
    run: JobRun, job_input: TaskReported | ChildJobEnded, change: NodeChanged, *, was_ending: bool
) -> None:
    where = f"{run.job_id}/{job_input.node_id}/{job_input.attempt}"
    succeeded = job_input.success if isinstance(job_input, TaskReported) else job_input.status is JobStatus.COMPLETED
    if succeeded and was_ending and isinstance(job_input, TaskReported) and job_input.records:
        # Completed means published, and a job that is ending publishes nothing.
        if change.status is not NodeStatus.CANCELLED:
            raise Violation("D8 an ending job publishes nothing", f"{where}: became {change.status}")
        return
    if succeeded != (change.status is NodeStatus.COMPLETED):
        raise Violation("I6 reports are believed", f"{where}: success {succeeded} became {change.status}")
    kind = job_input.error_kind if isinstance(job_input, TaskReported) else ErrorKind.CHILD_JOB_FAILED
    plan = run.plan.by_id.get(job_input.node_id) or run.plan.by_id[job_input.node_id.rpartition("__")[0]]
    attempts = plan.max_attempts if plan.task is None else plan.task.retry.max_attempts
    may_retry = not was_ending and kind not in NEVER_RETRIED and job_input.attempt < attempts
    if change.status is NodeStatus.FAILED and may_retry:
        raise Violation("E4 no attempt is forgone", where)
