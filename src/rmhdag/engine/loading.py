"""Rebuilds an aggregate from rows after a restart or a change of owner, and resumes its unfinished work.

Rows are the only source: edges, counters and windows follow from the statuses. Nodes of the definition are read as
rows. Children of a fan-out are read as bytes, in contiguous ranges of indexes: 500,000 of them are not objects here
either; only those with a slot in memory are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from rmhdag.engine import endings, fan_outs
from rmhdag.engine.dispatch import fill_lane, offer
from rmhdag.engine.effects import ContinueLater, Effect
from rmhdag.engine.inputs import Output
from rmhdag.engine.outputs import keep_read_paths
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.engine.slots import (
    CODES,
    COMPLETED,
    DISPATCHED,
    FAILED,
    PENDING,
    READY,
    RUNNING,
    SKIPPED,
    STATUSES,
    TERMINAL,
    FanOutState,
    Slot,
)
from rmhdag.models.limits import NAMED_FAILURES
from rmhdag.models.states import JobStatus, NodeStatus, NodeType


class TaskColumns(Protocol):
    """The columns about a task that rows of nodes and of active children share."""

    @property
    def attempt(self) -> int: ...
    @property
    def lease_losses(self) -> int: ...
    @property
    def next_attempt_at(self) -> datetime | None: ...
    @property
    def deadline_at(self) -> datetime | None: ...


class NodeRow(TaskColumns, Protocol):
    """The columns of `dag_node_states` that the engine reads of a node of the definition."""

    @property
    def node_id(self) -> str: ...
    @property
    def status(self) -> NodeStatus: ...
    @property
    def output(self) -> Any: ...
    @property
    def error_message(self) -> str | None: ...


class ChildUnderWay(NamedTuple):
    """A child that has a slot: its task is queued or running, or it waits for its next attempt."""

    fan_out_index: int
    attempt: int
    lease_losses: int
    next_attempt_at: datetime | None
    deadline_at: datetime | None


@dataclass(slots=True)
class LoadedChildren:
    """The children of one fan-out that have rows, from index 0 without a gap: two bytes each."""

    statuses: bytearray = field(default_factory=bytearray)  # positions in NodeStatus
    attempts: bytearray = field(default_factory=bytearray)  # of failed children, else 0
    under_way: list[ChildUnderWay] = field(default_factory=list)  # by index
    error: tuple[int, dict[str, Any]] | None = None  # of the first child that failed with a code


def load_run(
    plan: Plan,
    facts: JobFacts,
    rows: Iterable[NodeRow],
    children: Mapping[str, LoadedChildren],
    outputs: Mapping[str, Output],
    *,
    next_seq: int,
    reused_children: Mapping[str, Mapping[int, str]] | None = None,
) -> JobRun:
    """Rebuild the aggregate from the nodes of the definition and the children of its fan-outs.

    `outputs` holds the output of each completed node that an expression reads.
    """
    run = JobRun(plan, facts, next_seq=next_seq)
    run.reused_children = reused_children or {}
    engine_made: dict[str, Any] = {}
    for row in rows:
        slot = run.slots[plan.by_id[row.node_id].index]
        slot.reason = row.error_message
        _restore_slot(run, slot, CODES[row.status], row)
        if row.output is not None:
            engine_made[row.node_id] = row.output
    for slot in run.slots:
        output = outputs.get(slot.node_id)
        if output is None and slot.node_id in engine_made:
            output = Output(engine_made[slot.node_id])
        if slot.status == COMPLETED:
            keep_read_paths(run, slot.plan, output)
        slot.plan.behaviour.restore(run, slot, engine_made.get(slot.node_id))
        if slot.plan.type is NodeType.FAN_OUT and slot.node_id in engine_made:
            loaded = children.get(slot.node_id) or LoadedChildren()
            _restore_children(run, slot, engine_made[slot.node_id]["total"], loaded)
    _restore_edges(run)
    run.failed_nodes = [slot.node_id for slot in run.slots if slot.status == FAILED][: endings.NAMED_NODES]
    return run


def _restore_slot(run: JobRun, slot: Slot, status: int, row: TaskColumns) -> None:
    """Status, attempt and window of one task, for static nodes and active children alike."""
    slot.attempt = row.attempt
    slot.lease_losses = row.lease_losses
    slot.next_attempt_at = row.next_attempt_at
    slot.deadline_at = row.deadline_at
    slot.status = status
    if slot.parent is None:
        run.counts[PENDING] -= 1
        run.counts[slot.status] += 1
        run.open_nodes -= TERMINAL[slot.status]
    elif slot.task is not None:
        slot.extra_attempts = max(0, row.attempt - slot.task.retry.max_attempts)
    if slot.task is not None and slot.status in (DISPATCHED, RUNNING):
        run.in_flight += 1
        run.lane(slot.task.queue).unclaimed += slot.status == DISPATCHED


def _restore_children(run: JobRun, slot: Slot, total: int, loaded: LoadedChildren) -> None:
    fan = slot.fan = FanOutState(slot, None, total)
    fan.reused = run.reused_children.get(slot.node_id, {})
    statuses = fan.statuses
    fan.expanded = len(loaded.statuses)
    statuses[: fan.expanded] = loaded.statuses
    fan.attempts[: fan.expanded] = loaded.attempts
    fan.counts = [loaded.statuses.count(code) for code in range(len(STATUSES))]
    fan.error = loaded.error
    failed = -1
    while len(fan.failed) < NAMED_FAILURES and (failed := statuses.find(FAILED, failed + 1)) >= 0:
        fan.failed.append(failed)
    for row in loaded.under_way:
        child = Slot(slot.plan, fan.child_id(row.fan_out_index), slot.plan.task, fan, row.fan_out_index)
        _restore_slot(run, child, statuses[child.index], row)
        fan.active[child.index] = child
        if child.status != READY:
            fan.in_flight += 1
        elif row.next_attempt_at is None:
            fan.due.append(child)
    fan.counts[PENDING] = 0 if TERMINAL[slot.status] else total - fan.expanded
    for code, count in enumerate(fan.counts):
        run.counts[code] += count
    if run.ending is None or slot.status != RUNNING:
        return
    if READY in statuses or fan.in_flight == 0:
        fan.cancel_cursor = 0  # even if nothing is left to cancel: the fan-out still has to be closed
        run.cancelling += 1
    else:
        endings.forget_unborn_children(run, fan)


def _restore_edges(run: JobRun) -> None:
    for slot in run.slots:
        if slot.status not in (COMPLETED, SKIPPED):
            continue
        for target, is_any, branches in slot.plan.out:
            live = slot.status == COMPLETED and (branches is None or slot.taken in branches)
            run.slots[target].settle_edge(is_any, live)


def resume(run: JobRun, now: datetime) -> list[Effect]:
    """Resume the unfinished work of a loaded job: expansions, cancellations, reductions, tasks that wait for room."""
    run.now = now
    effects: list[Effect] = []
    run.effects = effects
    if run.status is not JobStatus.RUNNING:
        return effects
    if run.ending is not None:
        cancelling = (slot for slot in run.slots if slot.fan is not None and slot.fan.cancel_cursor is not None)
        effects.extend(ContinueLater(slot.node_id) for slot in cancelling)
        return effects
    for slot in run.slots:
        if slot.task is not None and slot.status == READY and slot.next_attempt_at is None:
            run.lane(slot.task.queue).waiting.append(slot)
        elif slot.fan is not None and slot.status == RUNNING:
            if slot.fan.expanded < slot.fan.total:
                slot.fan.items = fan_outs.source_items(run, slot)
                effects.append(ContinueLater(slot.node_id))
            offer(run, slot.fan)
        else:
            slot.plan.behaviour.resume(run, slot)
    for lane in run.lanes.values():
        fill_lane(run, lane)
    return effects
