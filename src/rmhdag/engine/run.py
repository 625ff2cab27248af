"""The aggregate of one job: `apply` takes one input and the time, changes the memory and returns effects.

The work per input depends on the out-degree of its node, never on the size of the job. If `apply` raises, the
aggregate is inconsistent: drop it and load it again from the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rmhdag.engine import endings, fan_outs, flow, tasks, waiting
from rmhdag.engine.dispatch import fill_lane
from rmhdag.engine.effects import ApprovalClosed, Effect, EventAppended, NodeChanged, WarningsCounted
from rmhdag.engine.inputs import (
    CancelJob,
    ChildJobEnded,
    ChildrenReduced,
    Continue,
    Decided,
    Input,
    Path,
    RetryNode,
    SetWindow,
    Start,
    TaskCheckpointed,
    TaskLost,
    TaskReported,
    TaskSnoozed,
    TaskStarted,
    TaskWithdrawn,
    TimerDue,
)
from rmhdag.engine.outputs import JobScope
from rmhdag.engine.plan import Plan
from rmhdag.engine.slots import (
    ALLOWED,
    PENDING,
    RUNNING,
    STATUSES,
    TERMINAL,
    FanOutState,
    IllegalTransitionError,
    Lane,
    Slot,
)
from rmhdag.models.data_warnings import WarningSum
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.ids import task_id_of
from rmhdag.models.states import JOB_TERMINAL, JobEnding, JobStatus, NodeType

BEFORE_ALL_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class JobFacts:
    """The columns of a job's row that the engine needs."""

    job_id: str
    input_params: Mapping[str, Any]
    status: JobStatus = JobStatus.PENDING
    ending: JobEnding | None = None
    error_message: str | None = None
    parent_job_id: str | None = None
    parent_node_id: str | None = None
    depth: int = 0
    started_at: datetime | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    warnings: Sequence[Mapping[str, Any]] = ()


class JobRun:
    """One job in memory. Created empty for a new job, or by `loading.load_run` from rows."""

    def __init__(self, plan: Plan, facts: JobFacts, *, next_seq: int = 1) -> None:
        self.plan = plan
        self.job_id = facts.job_id
        self.input_params = facts.input_params
        self.env = facts.env
        self.status = facts.status
        self.ending = facts.ending
        self.error_message = facts.error_message
        self.error = facts.error
        self.warnings = WarningSum(facts.warnings) if facts.warnings else None
        self.parent_job_id = facts.parent_job_id
        self.parent_node_id = facts.parent_node_id
        self.depth = facts.depth
        self.started_at = facts.started_at
        self.next_seq = next_seq
        self.slots = [
            Slot(node, node.node_id, node.task if node.type is NodeType.TASK else None) for node in plan.nodes
        ]
        self.counts = [0] * len(STATUSES)
        self.counts[PENDING] = len(self.slots)
        self.open_nodes = len(self.slots)  # static nodes that are not terminal
        self.in_flight = 0  # tasks that are queued or leased, and child jobs
        self.cancelling = 0  # fan-outs whose children are being cancelled in chunks
        self.failed_nodes: list[str] = []
        self.outputs: dict[Path, Any] = {}
        self.has_large_objects = False  # some effect has one: see `outputs.LargeObject`
        self.resolved_bytes = 0  # cost of parameters since the counter was reset
        self.lanes: dict[str, Lane] = {}
        self.settled: deque[Slot] = deque()
        self.scope = JobScope(self)
        self.reused_children: Mapping[str, Mapping[int, str]] = {}
        self.now = BEFORE_ALL_TIME
        self.jitter = 0.0
        self.effects: list[Effect] = []

    def apply(self, job_input: Input, now: datetime, jitter: float = 0.5) -> list[Effect]:
        """Decide what follows from one input; an empty list means nothing. `jitter` in [0, 1) spreads retries."""
        self.now = now
        self.jitter = jitter
        effects: list[Effect] = []
        self.effects = effects
        self.scope.work = 0
        RULES[type(job_input)](self, job_input)
        if self.settled:
            flow.spread(self)
        if self.status is JobStatus.RUNNING:
            if self.ending is None:
                if self.open_nodes == 0:
                    endings.complete_job(self)
            elif self.in_flight == 0 and self.cancelling == 0:
                endings.end_job(self)
        return effects

    @property
    def is_terminal(self) -> bool:
        return self.status in JOB_TERMINAL

    # -- what the rules share --------------------------------------------------------------------------------

    def move(self, slot: Slot, status: int) -> None:
        """The only place where a status changes: table, counters and child arrays stay in step."""
        before = slot.status
        if not ALLOWED[before][status]:
            raise IllegalTransitionError(f"{slot.node_id}: {STATUSES[before]} → {STATUSES[status]}")
        slot.status = status
        counts = self.counts
        counts[before] -= 1
        counts[status] += 1
        fan = slot.parent
        if fan is None:
            if TERMINAL[status]:
                self.open_nodes -= 1
                if before == RUNNING and slot.plan.type is NodeType.APPROVAL:
                    self.effects.append(ApprovalClosed(slot.node_id))
            elif TERMINAL[before]:
                self.open_nodes += 1
        else:
            fan.statuses[slot.index] = status
            counts = fan.counts
            counts[before] -= 1
            counts[status] += 1
            if TERMINAL[status]:
                fan.active.pop(slot.index, None)
            elif TERMINAL[before]:
                fan.active[slot.index] = slot

    def write(self, slot: Slot, **columns: Any) -> None:
        """Write the current row of a node."""
        self.effects.append(
            NodeChanged(
                slot.node_id,
                STATUSES[slot.status],
                slot.attempt,
                lease_losses=slot.lease_losses,
                next_attempt_at=slot.next_attempt_at,
                deadline_at=slot.deadline_at,
                **columns,
            )
        )

    def record(
        self,
        event_type: EventType,
        event_status: EventStatus,
        node_id: str | None,
        data: dict[str, Any],
        task_id: str | None = None,
        error_message: str | None = None,
        duration_ms: int | None = None,
    ) -> None:
        """Append to the job's audit trail; only the owner assigns `seq`."""
        self.effects.append(
            EventAppended(self.next_seq, event_type, event_status, node_id, task_id, data, error_message, duration_ms)
        )
        self.next_seq += 1

    def count_warnings(self, warnings: Sequence[Mapping[str, Any]]) -> None:
        """Add the warnings of a result that the job uses; each result is counted once."""
        if self.warnings is None:
            self.warnings = WarningSum()
        self.warnings.add(warnings)
        self.effects.append(WarningsCounted(self.warnings.as_json()))

    def record_ready(self, slot: Slot) -> None:
        data = {"dependencies_met": slot.all_live + slot.any_live}
        self.record(EventType.NODE_READY, EventStatus.INFO, slot.node_id, data)

    def lane(self, queue: str) -> Lane:
        lane = self.lanes.get(queue)
        if lane is None:
            lane = self.lanes[queue] = Lane()
        return lane

    def after(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def task_id(self, slot: Slot) -> str:
        return task_id_of(self.job_id, slot.node_id, slot.attempt)

    def find(self, node_id: str) -> Slot | None:
        """The slot of a node or of an active child; None for anything else."""
        plan = self.plan.by_id.get(node_id)
        if plan is not None:
            return self.slots[plan.index]
        child = self.find_child(node_id)
        return None if child is None else child[0].active.get(child[1])

    def find_child(self, node_id: str) -> tuple[FanOutState, int] | None:
        parent_id, _, index = node_id.rpartition("__")
        plan = self.plan.by_id.get(parent_id)
        fan = None if plan is None else self.slots[plan.index].fan
        if fan is None or not index.isdecimal() or int(index) >= fan.expanded:
            return None
        return fan, int(index)


def _set_window(run: JobRun, window: SetWindow) -> None:
    run.lane(window.queue).limit = window.limit
    fill_lane(run, run.lane(window.queue))


RULES: dict[type, Callable[[JobRun, Any], None]] = {
    Start: flow.start_job,
    TaskStarted: tasks.task_started,
    TaskReported: tasks.task_reported,
    TaskSnoozed: tasks.task_snoozed,
    TaskLost: tasks.task_lost,
    TaskCheckpointed: tasks.task_checkpointed,
    TaskWithdrawn: tasks.task_withdrawn,
    TimerDue: tasks.timer_due,
    RetryNode: tasks.retry_node,
    Continue: fan_outs.continue_fan_out,
    ChildrenReduced: fan_outs.children_reduced,
    Decided: waiting.decided,
    ChildJobEnded: waiting.child_job_ended,
    CancelJob: endings.cancel_job,
    SetWindow: _set_window,
}
