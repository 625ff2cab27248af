"""Drives one job by hand: keeps the rows that the effects describe, and hands queued tasks back as reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from rmhdag.engine.effects import (
    AggregationRequested,
    ChildJobRequested,
    ChildrenCancelled,
    ChildrenCreated,
    CommandAnswered,
    ContinueLater,
    Effect,
    EventAppended,
    JobChanged,
    NodeChanged,
    NodesCreated,
    TaskQueued,
    TaskRevoked,
)
from rmhdag.engine.inputs import (
    ChildrenReduced,
    Continue,
    Input,
    Output,
    Start,
    TaskLost,
    TaskReported,
    TaskStarted,
    TaskWithdrawn,
    Timer,
    TimerDue,
)
from rmhdag.engine.loading import load_run, resume
from rmhdag.engine.plan import Plan
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.engine.slots import STATUSES
from rmhdag.lab.simulation.reads import compact_children
from rmhdag.models.events import ErrorKind
from rmhdag.models.states import NODE_TERMINAL, JobEnding, JobStatus, NodeStatus
from rmhdag.workflow.definition import WorkflowDefinition

START_OF_TIME = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Row:
    """A node row, as far as the engine reads and writes it."""

    node_id: str
    status: NodeStatus = NodeStatus.PENDING
    attempt: int = 1
    max_retries: int = 0
    task_id: str | None = None
    lease_losses: int = 0
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    parent_node_id: str | None = None
    fan_out_index: int | None = None
    input_params: Any = None
    output: Any = None
    error_message: str | None = None
    reused_task_id: str | None = None
    history: list[NodeStatus] = field(default_factory=list)


class Job:
    """One job under test. After every input the rows, counters and transitions are compared with the aggregate."""

    def __init__(
        self,
        definition: WorkflowDefinition,
        params: dict[str, Any] | None = None,
        *,
        depth: int = 0,
        parent: bool = False,
    ) -> None:
        self.plan = Plan(definition)
        self.facts = JobFacts(
            "0" * 31 + "1",
            params or {},
            depth=depth,
            parent_job_id="p" * 32 if parent else None,
            parent_node_id="child" if parent else None,
        )
        self.run = JobRun(self.plan, self.facts)
        self.reused_children: Mapping[str, Mapping[int, str]] = {}
        self.now = START_OF_TIME
        self.rows: dict[str, Row] = {}
        self.events: list[EventAppended] = []
        self.effects: list[Effect] = []
        self.outputs: dict[str, Output] = {}
        self.child_jobs: dict[str, ChildJobRequested] = {}
        self.queued: dict[str, TaskQueued] = {}
        self.continues: list[str] = []
        self.aggregations: list[AggregationRequested] = []
        self.result: dict[str, Any] | None = None
        self.status = JobStatus.PENDING
        self.ending: JobEnding | None = None
        self.error_message: str | None = None

    @property
    def state(self) -> str:
        return str(self.status)

    def begin(self, given: Start | None = None) -> Job:
        given = given or Start()
        self.reused_children = given.reused_children
        self.apply(given)
        return self

    def apply(self, given: Input, jitter: float = 0.5) -> list[Effect]:
        effects = self.run.apply(given, self.now, jitter)
        self._take(effects)
        self.check()
        return effects

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # -- what workers and the outside do ------------------------------------------------------------------------

    def succeed(self, node_id: str, output: Any = None, records: tuple[Any, ...] = ()) -> list[Effect]:
        task = self.queued.pop(node_id)
        self.outputs[node_id] = Output({} if output is None else output)
        return self.apply(
            TaskReported(
                node_id, task.attempt, task.task_id, 1, True, self.outputs[node_id], duration_ms=5, records=records
            )
        )

    def fail(self, node_id: str, kind: ErrorKind | None = None, jitter: float = 0.5) -> list[Effect]:
        task = self.queued.pop(node_id)
        return self.apply(
            TaskReported(node_id, task.attempt, task.task_id, 1, False, error_message="boom", error_kind=kind), jitter
        )

    def start_task(self, node_id: str, lease_epoch: int = 1) -> list[Effect]:
        task = self.queued[node_id]
        return self.apply(TaskStarted(node_id, task.attempt, task.task_id, lease_epoch, "worker-1"))

    def lose(self, node_id: str, lease_epoch: int = 1, *, started: bool = True) -> list[Effect]:
        task = self.queued[node_id]
        return self.apply(TaskLost(node_id, task.attempt, task.task_id, lease_epoch, "worker-1", started))

    def withdraw(self, node_id: str) -> list[Effect]:
        task = self.queued.pop(node_id)
        return self.apply(TaskWithdrawn(node_id, task.attempt, task.task_id))

    def due(self, node_id: str, timer: Timer = Timer.RETRY) -> list[Effect]:
        return self.apply(TimerDue(node_id, self.rows[node_id].attempt, timer))

    def apply_continue(self) -> None:
        self.apply(Continue(self.continues.pop(0)))

    def continue_all(self) -> None:
        while self.continues:
            self.apply_continue()

    def aggregate_one(self) -> None:
        """What the orchestrator does outside the transaction: stream the children through the reducer."""
        wanted = self.aggregations.pop(0)
        node = self.plan.by_id[wanted.node_id].definition
        reducer = Reducer.for_node(node)
        pieces = [reducer.open()]
        try:
            for row in sorted(self.children(wanted.fan_out_id), key=lambda row: row.fan_out_index or 0):
                if row.status is NodeStatus.COMPLETED:
                    pieces.append(reducer.add(row.node_id, self.outputs[row.node_id].value))
                else:
                    reducer.fail(row.node_id, row.error_message)
            pieces.append(reducer.close())
        except ReduceError as error:
            self.apply(ChildrenReduced(wanted.node_id, error_message=str(error)))
        else:
            self.apply(ChildrenReduced(wanted.node_id, Output(orjson.loads(b"".join(pieces)))))

    def aggregate_all(self) -> None:
        while self.aggregations:
            self.aggregate_one()

    def finish(self, output: Any = None) -> Job:
        """Let every task succeed until nothing is left to do."""
        while self.queued or self.continues or self.aggregations:
            self.continue_all()
            self.aggregate_all()
            for node_id in list(self.queued):
                if node_id in self.queued:
                    self.succeed(node_id, output)
        return self

    def reload(self) -> Job:
        """Forget the aggregate and load it from the rows, as after a crash."""
        outputs = {node_id: output for node_id, output in self.outputs.items() if node_id in self.plan.by_id}
        self.run = self.loaded(outputs)
        self.continues.clear()
        self.aggregations.clear()
        self._take(resume(self.run, self.now))
        self.check()
        return self

    def loaded(self, outputs: dict[str, Output] | None = None) -> JobRun:
        """A second aggregate, from the rows."""
        facts = replace(
            self.facts,
            status=self.status,
            ending=self.ending,
            error_message=self.error_message,
            started_at=self.run.started_at,
        )
        nodes = [row for row in self.rows.values() if row.parent_node_id is None]
        children = compact_children(self.rows.values())
        return load_run(
            self.plan,
            facts,
            nodes,
            children,
            outputs or {},
            next_seq=len(self.events) + 1,
            reused_children=self.reused_children,
        )

    # -- what the rows say ------------------------------------------------------------------------------------------

    def children(self, fan_out_id: str) -> list[Row]:
        return [row for row in self.rows.values() if row.parent_node_id == fan_out_id]

    def statuses(self) -> dict[str, str]:
        return {node_id: str(row.status) for node_id, row in self.rows.items()}

    def answers(self) -> list[CommandAnswered]:
        return [effect for effect in self.effects if isinstance(effect, CommandAnswered)]

    def event_types(self, node_id: str | None = None) -> list[str]:
        return [str(event.event_type) for event in self.events if node_id is None or event.node_id == node_id]

    def check(self) -> None:
        rows = [row.status for row in self.rows.values()]
        unborn = sum(slot.fan.counts[0] for slot in self.run.slots if slot.fan is not None)
        for code, status in enumerate(STATUSES):
            expected = rows.count(status) + (unborn if status is NodeStatus.PENDING else 0)
            if self.rows:
                assert self.run.counts[code] == expected, (status, self.run.counts, self.statuses())
        assert [event.seq for event in self.events] == list(range(1, len(self.events) + 1))
        in_flight = {
            row.node_id
            for row in self.rows.values()
            if row.status in (NodeStatus.DISPATCHED, NodeStatus.RUNNING) and row.node_id in self.queued
        }
        assert set(self.queued) == in_flight, "queue rows and leased nodes differ"

    def _take(self, effects: list[Effect]) -> None:
        self.effects.extend(effects)
        for effect in effects:
            self._take_one(effect)

    def _take_one(self, effect: Effect) -> None:
        match effect:
            case NodesCreated():
                for node_id, max_retries in zip(effect.node_ids, effect.max_retries, strict=True):
                    self.rows[node_id] = Row(node_id, max_retries=max_retries)
            case ChildrenCreated():
                self._create_children(effect)
            case ChildrenCancelled():
                for row in self.children(effect.fan_out_id):
                    if effect.start <= (row.fan_out_index or 0) < effect.stop and row.status is NodeStatus.READY:
                        row.status = NodeStatus.CANCELLED
                        row.next_attempt_at = None
            case NodeChanged():
                self._change_node(effect)
            case TaskQueued():
                assert effect.node_id not in self.queued, "queued twice"
                self.queued[effect.node_id] = effect
            case TaskRevoked():
                self.queued = {key: task for key, task in self.queued.items() if task.task_id != effect.task_id}
            case JobChanged():
                assert self.status in (JobStatus.PENDING, JobStatus.RUNNING), "a terminal job changed"
                self.status, self.ending = effect.status, effect.ending or self.ending
                self.result = effect.result
                self.error_message = effect.error_message or self.error_message
            case EventAppended():
                self.events.append(effect)
            case ContinueLater():
                self.continues.append(effect.node_id)
            case AggregationRequested():
                self.aggregations.append(effect)
            case ChildJobRequested():
                self.child_jobs[effect.child_job_id] = effect
            case _:
                pass

    def _create_children(self, effect: ChildrenCreated) -> None:
        for child in effect.children:
            status = NodeStatus.READY
            if child.reused_task_id is not None:
                status = NodeStatus.COMPLETED
            elif child.error_message is not None:
                status = NodeStatus.FAILED
            self.rows[child.node_id] = Row(
                child.node_id,
                status,
                max_retries=effect.max_retries,
                parent_node_id=effect.fan_out_id,
                fan_out_index=child.index,
                input_params=child.input_params,
                error_message=child.error_message,
                reused_task_id=child.reused_task_id,
            )

    def _change_node(self, effect: NodeChanged) -> None:
        row = self.rows[effect.node_id]
        assert row.status not in NODE_TERMINAL or row.status is NodeStatus.FAILED, f"{row.node_id} left {row.status}"
        row.history.append(effect.status)
        row.status, row.attempt, row.lease_losses = effect.status, effect.attempt, effect.lease_losses
        row.next_attempt_at, row.deadline_at = effect.next_attempt_at, effect.deadline_at
        for column in ("task_id", "input_params", "output", "error_message", "reused_task_id"):
            if getattr(effect, column) is not None:
                setattr(row, column, getattr(effect, column))
        if effect.status is NodeStatus.COMPLETED:
            row.error_message = None
