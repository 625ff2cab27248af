"""An aggregate from rows, after a restart or a change of owner; and what it still owes the world.

Only what rows say is believed: edges, counters and windows follow from the statuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from rmhdag.engine import endings, fan_outs, flow, tasks
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
    TERMINAL,
    FanOutState,
    Slot,
)
from rmhdag.engine.waiting import child_job_id
from rmhdag.models.limits import NAMED_FAILURES
from rmhdag.models.states import JobStatus, NodeStatus, NodeType


class NodeRow(Protocol):
    """The columns of `dag_node_states` that the engine reads."""

    @property
    def node_id(self) -> str: ...
    @property
    def status(self) -> NodeStatus: ...
    @property
    def attempt(self) -> int: ...
    @property
    def max_retries(self) -> int: ...
    @property
    def lease_losses(self) -> int: ...
    @property
    def next_attempt_at(self) -> datetime | None: ...
    @property
    def deadline_at(self) -> datetime | None: ...
    @property
    def parent_node_id(self) -> str | None: ...
    @property
    def fan_out_index(self) -> int | None: ...
    @property
    def output(self) -> Any: ...
    @property
    def error_message(self) -> str | None: ...


def load_run(
    plan: Plan,
    facts: JobFacts,
    rows: Iterable[NodeRow],
    outputs: Mapping[str, Output],
    *,
    next_seq: int,
    reused_children: Mapping[str, Mapping[int, str]] | None = None,
) -> JobRun:
    """Rebuild the aggregate. `outputs` holds, for each completed node that somebody reads, what it produced."""
    run = JobRun(plan, facts, next_seq=next_seq)
    run.reused_children = reused_children or {}
    children: dict[str, list[NodeRow]] = {}
    engine_made: dict[str, Any] = {}
    for row in rows:
        if row.parent_node_id is not None:
            children.setdefault(row.parent_node_id, []).append(row)
            continue
        slot = run.slots[plan.by_id[row.node_id].index]
        _restore_slot(run, slot, row)
        if row.output is not None:
            engine_made[row.node_id] = row.output
    for slot in run.slots:
        output = outputs.get(slot.node_id)
        if output is None and slot.node_id in engine_made:
            output = Output(engine_made[slot.node_id])
        if slot.status == COMPLETED:
            keep_read_paths(run, slot.plan, output)
        if slot.plan.type is NodeType.CONDITIONAL and slot.status == COMPLETED:
            slot.taken = flow.branch_taken(slot.plan, engine_made.get(slot.node_id))
        if slot.plan.type is NodeType.FAN_OUT and slot.node_id in engine_made:
            _restore_children(run, slot, engine_made[slot.node_id]["total"], children.get(slot.node_id, []))
    _restore_edges(run)
    run.failed_nodes = [slot.node_id for slot in run.slots if slot.status == FAILED][: endings.NAMED_NODES]
    return run


def _restore_slot(run: JobRun, slot: Slot, row: NodeRow) -> None:
    """Status, attempt and window of one task, for a static node and a child under way alike."""
    slot.attempt = row.attempt
    slot.lease_losses = row.lease_losses
    slot.next_attempt_at = row.next_attempt_at
    slot.deadline_at = row.deadline_at
    slot.reason = row.error_message
    slot.status = CODES[row.status]
    if slot.parent is None:
        run.counts[PENDING] -= 1
        run.counts[slot.status] += 1
        run.open_nodes -= TERMINAL[slot.status]
    elif slot.task is not None:
        slot.extra_attempts = max(0, row.attempt - slot.task.retry.max_attempts)
    if slot.task is not None and slot.status in (DISPATCHED, RUNNING):
        run.in_flight += 1
        run.lane(slot.task.queue).unclaimed += slot.status == DISPATCHED
    if slot.plan.type is NodeType.WORKFLOW and slot.status == RUNNING:
        run.in_flight += 1
        slot.child_job_id = child_job_id(run.task_id(slot))


def _restore_children(run: JobRun, slot: Slot, total: int, rows: list[NodeRow]) -> None:
    fan = slot.fan = FanOutState(slot, None, total)
    fan.reused = dict(run.reused_children.get(slot.node_id, {}))
    fan.expanded = len(rows)
    for row in rows:
        index = row.fan_out_index
        assert index is not None
        status = CODES[row.status]
        fan.statuses[index] = status
        fan.counts[status] += 1
        if status == FAILED:
            fan.attempts[index] = row.attempt
            if len(fan.failed) < NAMED_FAILURES:
                fan.failed.append(index)
        elif status in (DISPATCHED, RUNNING) or (status == READY and (row.attempt > 1 or row.next_attempt_at)):
            child = Slot(slot.plan, row.node_id, slot.plan.task, fan, index)
            _restore_slot(run, child, row)
            fan.active[index] = child
            if status == READY:
                if row.next_attempt_at is None:
                    fan.due.append(child)
            else:
                fan.in_flight += 1
    fan.counts[PENDING] = 0 if TERMINAL[slot.status] else total - fan.expanded
    for code, count in enumerate(fan.counts):
        run.counts[code] += count
    if run.ending is None or slot.status != RUNNING:
        return
    if READY in fan.statuses or fan.in_flight == 0:
        fan.cancel_cursor = 0  # also where nothing is left to cancel: somebody has to close the fan-out
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
    """What a freshly loaded job still owes: unfinished expansions, cancellations and reductions, tasks without room."""
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
        if slot.plan.type is NodeType.FAN_IN and slot.status == READY:
            fan_outs.request_aggregation(run, slot)
        elif slot.task is not None and slot.status == READY and slot.next_attempt_at is None:
            run.lane(slot.task.queue).waiting.append(slot)
        elif slot.fan is not None and slot.status == RUNNING:
            if slot.fan.expanded < slot.fan.total:
                slot.fan.items = fan_outs.source_items(run, slot)
                effects.append(ContinueLater(slot.node_id))
            fan_outs.offer(run, slot.fan)
    for lane in run.lanes.values():
        tasks.fill_lane(run, lane)
    return effects
