"""Why is a node not running? One code and one sentence, the same for API, CLI and UI."""

from __future__ import annotations

from dataclasses import dataclass

from rmhdag.engine.reasons import Reason, ReasonCode, in_words
from rmhdag.engine.run import JobRun
from rmhdag.engine.slots import (
    CANCELLED,
    COMPLETED,
    DISPATCHED,
    FAILED,
    PENDING,
    READY,
    SKIPPED,
    STATUSES,
    TERMINAL,
    FanOutState,
    Slot,
)
from rmhdag.models.states import JobStatus, NodeType

__all__ = ["Explanation", "ReasonCode", "explain"]


@dataclass(slots=True, frozen=True)
class Explanation:
    node_id: str
    reason_code: ReasonCode
    reason_text: str
    hint: str | None = None
    # The queue and the handler, if the node waits for a worker.
    queue: str | None = None
    handler: str | None = None


def explain(run: JobRun, node_id: str) -> Explanation:
    """Explain the state of a node or a fan-out child, and what it waits for."""
    code, text, hint = _explain(run, node_id)
    slot = run.find(node_id) if code is ReasonCode.WAITS_FOR_WORKER else None
    if slot is None or slot.task is None:
        return Explanation(node_id, code, text, hint)
    return Explanation(node_id, code, text, hint, slot.task.queue, slot.task.handler)


def _explain(run: JobRun, node_id: str) -> Reason:
    slot = run.find(node_id)
    if slot is not None:
        return _explain_slot(run, slot)
    child = run.find_child(node_id)
    if child is not None:
        return _explain_child(run, *child)
    parent_id, _, index = node_id.rpartition("__")
    plan = run.plan.by_id.get(parent_id)
    if plan is not None and plan.type is NodeType.FAN_OUT and index.isdecimal():
        parent = run.slots[plan.index]
        if parent.fan is None or int(index) < parent.fan.total:
            text = f"Not created yet: {parent_id} is {STATUSES[parent.status]}."
            return ReasonCode.NOT_EXPANDED, text, None
    return (
        ReasonCode.UNKNOWN_NODE,
        f"The job has no node {node_id}.",
        "Check the spelling against the workflow's nodes.",
    )


def _explain_slot(run: JobRun, slot: Slot) -> Reason:
    if TERMINAL[slot.status]:
        return _explain_terminal(slot.status, slot.reason)
    if run.status is JobStatus.PENDING:
        return (
            ReasonCode.JOB_NOT_STARTED,
            "The job waits for an orchestrator to start it.",
            "Is an orchestrator running?",
        )
    if slot.status in (PENDING, READY) and run.ending is not None:
        return _explain_ending(run)
    if slot.status == PENDING:
        return _explain_dependencies(run, slot)
    if slot.status == READY:
        return _explain_ready(run, slot)
    if slot.status == DISPATCHED:
        assert slot.task is not None
        text = f"Waiting for a free worker (queue {slot.task.queue})."
        return ReasonCode.WAITS_FOR_WORKER, text, f"Start or scale workers of queue {slot.task.queue}."
    if slot.plan.behaviour.explain_running is not None:
        return slot.plan.behaviour.explain_running(run, slot)
    return ReasonCode.RUNS, "A worker runs it.", None


def _explain_ending(run: JobRun) -> Reason:
    return ReasonCode.JOB_ENDING, f"The job is ending as {run.ending}; nothing new starts.", None


def _explain_terminal(status: int, reason: str | None) -> Reason:
    if status == COMPLETED:
        return ReasonCode.COMPLETED, "It completed.", None
    if status == FAILED:
        return ReasonCode.FAILED, f"It failed: {reason or 'no message'}", "Fix the cause, then retry the job."
    if status == SKIPPED:
        if reason == "job_failed":
            return ReasonCode.SKIPPED, "Skipped because another node of the job failed.", None
        return ReasonCode.SKIPPED, "Skipped: the branch leading here was not taken.", None
    assert status == CANCELLED
    return ReasonCode.CANCELLED, "Cancelled because the job ended.", None


def _explain_dependencies(run: JobRun, slot: Slot) -> Reason:
    open_all: list[str] = []
    open_any: list[str] = []
    for source, is_any in slot.plan.inputs_of:
        before = run.slots[source]
        if not TERMINAL[before.status]:
            (open_any if is_any else open_all).append(f"{before.node_id} ({STATUSES[before.status]})")
    waits = _listed(open_all) if open_all else f"one of {_listed(open_any)}"
    return ReasonCode.WAITS_FOR_DEPENDENCIES, f"Waiting for {waits}.", None


def _listed(names: list[str]) -> str:
    names_shown = ", ".join(names[:5])
    return f"{names_shown} and {len(names) - 5} more" if len(names) > 5 else names_shown


def _explain_ready(run: JobRun, slot: Slot) -> Reason:
    if slot.next_attempt_at is not None:
        text = f"Attempt {slot.attempt - 1} failed; attempt {slot.attempt} is due at {in_words(slot.next_attempt_at)}."
        return ReasonCode.WAITS_FOR_RETRY, text, "Retry the node to skip the wait."
    if slot.plan.behaviour.explain_ready is not None:
        return slot.plan.behaviour.explain_ready(run, slot)
    if slot.parent is not None:
        return _explain_room(slot.parent)
    assert slot.task is not None
    lane = run.lane(slot.task.queue)
    text = f"{lane.unclaimed} tasks of this job wait in queue {slot.task.queue} already, the window is {lane.limit}."
    return ReasonCode.WAITS_FOR_ROOM, text, f"Start or scale workers of queue {slot.task.queue}."


def _explain_child(run: JobRun, fan: FanOutState, index: int) -> Reason:
    """A child without a slot is settled, or was never sent."""
    status = fan.statuses[index]
    if TERMINAL[status]:
        return _explain_terminal(status, "see its row for the message" if status == FAILED else None)
    if run.ending is not None:
        return _explain_ending(run)
    return _explain_room(fan)


def _explain_room(fan: FanOutState) -> Reason:
    limit = fan.slot.plan.max_parallel
    if limit is not None and fan.in_flight >= limit:
        text = f"{fan.in_flight} children are under way and max_parallel is {limit}."
        return ReasonCode.WAITS_FOR_MAX_PARALLEL, text, "Raise max_parallel in the workflow to run more at a time."
    assert fan.slot.plan.task is not None
    queue = fan.slot.plan.task.queue
    return ReasonCode.WAITS_FOR_ROOM, f"Earlier tasks of this job fill its window in queue {queue}.", None
