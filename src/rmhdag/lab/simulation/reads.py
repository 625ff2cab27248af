"""How an orchestrator gets back what the store holds: a whole aggregate, a full report, a fan-in's children."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from operator import itemgetter
from typing import Any, Protocol

import orjson

from rmhdag.engine.inputs import (
    ChildrenReduced,
    Input,
    Output,
    TaskCheckpointed,
    TaskReported,
    TaskSnoozed,
    TaskStarted,
    Timer,
    TimerDue,
)
from rmhdag.engine.loading import ChildUnderWay, LoadedChildren, TaskColumns, load_run
from rmhdag.engine.plan import Plan
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.engine.slots import CODES
from rmhdag.lab.simulation.rows import InboxRow, JobRow, NodeRow, ResultRow
from rmhdag.lab.simulation.store import Store
from rmhdag.models.references import Reference, as_reference
from rmhdag.models.states import JOB_TERMINAL, NodeStatus
from rmhdag.workflow.expressions import Missing, resolve_path

# Production keeps 64 KB inline; here most reductions shall become payloads, and some shall not.
INLINE_BYTES = 300


class ChildRow(TaskColumns, Protocol):
    """A node's row, as far as children are made compact from it."""

    @property
    def status(self) -> NodeStatus: ...
    @property
    def parent_node_id(self) -> str | None: ...
    @property
    def fan_out_index(self) -> int | None: ...


def load(store: Store, plan: Plan, job: JobRow) -> JobRun:
    facts = JobFacts(
        job.job_id,
        job.input_params,
        job.status,
        job.ending,
        job.error_message,
        job.parent_job_id,
        job.parent_node_id,
        job.depth,
        job.started_at,
        warnings=job.warnings,
    )
    rows = store.nodes[job.job_id]
    outputs = {}
    for row in rows.values():
        if row.status is NodeStatus.COMPLETED and row.parent_node_id is None:
            output = stored_output(store, plan, row)
            if output is not None:
                outputs[row.node_id] = output
    next_seq = len(store.events[job.job_id]) + 1
    nodes = [row for row in rows.values() if row.parent_node_id is None]
    children = compact_children(rows.values())
    reused = job.rerun.reused_children
    return load_run(plan, facts, nodes, children, outputs, next_seq=next_seq, reused_children=reused)


def compact_children(rows: Iterable[ChildRow]) -> dict[str, LoadedChildren]:
    """By fan-out, what the store makes of the rows of children: they come one by one only where memory has a slot."""
    compacted: dict[str, LoadedChildren] = {}
    children = [(row.fan_out_index, row) for row in rows if row.fan_out_index is not None]
    for index, row in sorted(children, key=itemgetter(0)):
        assert row.parent_node_id is not None
        loaded = compacted.setdefault(row.parent_node_id, LoadedChildren())
        assert len(loaded.statuses) == index, f"child {index} of {row.parent_node_id} follows a gap"
        loaded.statuses.append(CODES[row.status])
        loaded.attempts.append(row.attempt if row.status is NodeStatus.FAILED else 0)
        is_out = row.status in (NodeStatus.DISPATCHED, NodeStatus.RUNNING)
        is_tried = row.status is NodeStatus.READY and (row.attempt > 1 or row.next_attempt_at is not None)
        if is_out or is_tried:
            columns = (row.attempt, row.lease_losses, row.next_attempt_at, row.deadline_at)
            loaded.under_way.append(ChildUnderWay(index, *columns))
    return compacted


def stored_output(store: Store, plan: Plan, row: NodeRow) -> Output | None:
    result = accepted_result(store, row)
    if result is not None:
        return _as_output(plan, row.node_id, result.output, is_large=result.is_large)
    reference = as_reference(row.output)
    if reference is not None:
        return _as_output(plan, row.node_id, store.payloads[reference.sha256], is_large=True)
    return None if row.output is None else Output(row.output)


def accepted_result(store: Store, row: NodeRow) -> ResultRow | None:
    """The one result of the task that completed the node, here or in the job that was rerun."""
    result = store.results.get(row.reused_task_id or row.task_id or "")
    return result[0] if result else None


def _as_output(plan: Plan, node_id: str, value: Any, *, is_large: bool) -> Output:
    if not is_large:
        return Output(value)
    excerpts = {}
    for path in plan.read_paths(node_id) if node_id in plan.by_id else []:
        try:
            excerpts[path] = resolve_path(value, path)
        except Missing:
            continue
    text = orjson.dumps(value)
    return Output(reference=Reference(sha256(text).hexdigest(), len(text)), excerpts=excerpts)


def is_overtaken(store: Store, row: InboxRow) -> bool:
    """News of a lease whose successor was heard of before: a row that went astray comes after the loss of its lease."""
    job_input = row.given
    if not isinstance(job_input, TaskStarted | TaskSnoozed | TaskCheckpointed):
        return False
    queued = store.queue.get(job_input.task_id)
    if isinstance(job_input, TaskCheckpointed):
        return queued is not None and queued.lease_epoch > job_input.lease_epoch
    if queued is None or queued.lease_epoch == job_input.lease_epoch:
        return queued is None
    # That a lease was given back is news until its successor starts.
    return queued.started or isinstance(job_input, TaskStarted)


def complete_input(store: Store, plan: Plan, job_input: Input) -> Input:
    """An inbox row of a report is small; the result itself is read beside it."""
    if not isinstance(job_input, TaskReported):
        return job_input
    for result in store.results[job_input.task_id]:
        if result.lease_epoch == job_input.lease_epoch:
            return replace(
                job_input,
                output=_as_output(plan, job_input.node_id, result.output, is_large=result.is_large),
                error_kind=result.error_kind,
                error_message=None if result.success else f"attempt {result.attempt} failed as {result.error_kind}",
                records=result.records,
                warnings=result.warnings,
            )
    raise LookupError(f"no result for {job_input.task_id} / {job_input.lease_epoch}")


def reduce_children(store: Store, plan: Plan, job_id: str, node_id: str) -> ChildrenReduced:
    """Run the fan-in's reducer over the stored outputs, in index order."""
    node = plan.by_id[node_id].definition
    reducer = Reducer.for_node(node)
    pieces = [reducer.open()]
    try:
        for row in children_of(store, job_id, node.source_node):
            result = accepted_result(store, row)
            if row.status is NodeStatus.COMPLETED and result is not None:
                pieces.append(reducer.add(row.node_id, result.output))
            else:
                reducer.fail(row.node_id, row.error_message)
        pieces.append(reducer.close())
    except ReduceError as error:
        return ChildrenReduced(node_id, error_message=str(error))
    text = b"".join(pieces)
    value = orjson.loads(text)
    output = _as_output(plan, node_id, value, is_large=len(text) > INLINE_BYTES)
    if output.reference is not None:
        store.payloads[output.reference.sha256] = value
    return ChildrenReduced(node_id, output)


def children_of(store: Store, job_id: str, fan_out_id: str) -> list[NodeRow]:
    rows = [row for row in store.nodes[job_id].values() if row.parent_node_id == fan_out_id]
    return sorted(rows, key=lambda row: row.fan_out_index or 0)


def due_timers(store: Store, owner_id: str) -> list[tuple[str, TimerDue]]:
    """Times that have passed in jobs of this owner, except for deadlines that something on its way makes void."""
    now = store.clock()
    due = []
    for job_id, job_input in timers_of(store, owner_id, until=now):
        row = store.nodes[job_id][job_input.node_id]
        if job_input.timer is Timer.RETRY or not store.guards.waiting_result or _is_overdue(store, job_id, row, now):
            due.append((job_id, job_input))
    return due


def _is_overdue(store: Store, job_id: str, row: NodeRow, now: datetime) -> bool:
    """Has the task, the child job or the decision still not come, as far as the rows show?"""
    if row.task_id is None:
        commands = [command for command in store.commands.values() if command.job_id == job_id]
        return not any(command.applied is None for command in commands if not command.command_id.startswith("cancel-"))
    queued = store.queue.get(row.task_id)
    if queued is None:
        children = [
            job for job in store.jobs.values() if (job.parent_job_id, job.parent_node_id) == (job_id, row.node_id)
        ]
        return bool(children) and children[-1].status not in JOB_TERMINAL
    if queued.lost:
        return False
    if row.status is not NodeStatus.RUNNING:
        return not queued.started
    began = queued.started_at
    return began is not None and began + timedelta(seconds=queued.timeout_seconds) <= now


def timers_of(
    store: Store, owner_id: str, *, since: datetime | None = None, until: datetime | None = None
) -> list[tuple[str, TimerDue]]:
    """The timers of this owner's jobs, those after `since` and up to `until`."""
    due_rows = []
    for (job_id, node_id), row in store.timers.items():
        job = store.jobs[job_id]
        if job.owner_id != owner_id or job.status in JOB_TERMINAL:
            continue
        for timer, at in ((Timer.RETRY, row.next_attempt_at), (Timer.DEADLINE, row.deadline_at)):
            if at is not None and (until is None or at <= until) and (since is None or at > since):
                due_rows.append((job_id, TimerDue(node_id, row.attempt, timer)))
    return due_rows
