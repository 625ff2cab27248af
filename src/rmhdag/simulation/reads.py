"""How an orchestrator gets back what the store holds: a whole aggregate, a full report, a fan-in's children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from rmhdag.engine.inputs import (
    ChildrenReduced,
    Input,
    Output,
    Reference,
    TaskCheckpointed,
    TaskReported,
    TaskSnoozed,
    TaskStarted,
    Timer,
    TimerDue,
)
from rmhdag.engine.loading import load_run
from rmhdag.engine.plan import Plan
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.models.states import JOB_TERMINAL, NodeStatus
from rmhdag.simulation.rows import InboxRow, JobRow, NodeRow, ResultRow
from rmhdag.simulation.store import Store
from rmhdag.workflow.expressions import Missing, resolve_path

# Production keeps 64 KB inline; here most reductions shall become payloads, and some shall not.
INLINE_BYTES = 300


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
    )
    rows = store.nodes[job.job_id]
    outputs = {}
    for row in rows.values():
        if row.status is NodeStatus.COMPLETED and row.parent_node_id is None:
            output = stored_output(store, plan, row)
            if output is not None:
                outputs[row.node_id] = output
    next_seq = len(store.events[job.job_id]) + 1
    return load_run(plan, facts, rows.values(), outputs, next_seq=next_seq, reused_children=job.rerun.reused_children)


def stored_output(store: Store, plan: Plan, row: NodeRow) -> Output | None:
    result = accepted_result(store, row)
    if result is not None:
        return _as_output(plan, row.node_id, result.output, is_large=result.is_large)
    if isinstance(row.output, dict) and row.output.get("sha256") in store.payloads:
        return _as_output(plan, row.node_id, store.payloads[row.output["sha256"]], is_large=True)
    return None if row.output is None else Output(row.output)


def accepted_result(store: Store, row: NodeRow) -> ResultRow | None:
    """The one result of the task that completed the node, here or in the job that was rerun."""
    found = store.results.get(row.reused_task_id or row.task_id or "")
    return found[0] if found else None


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
    given = row.given
    if not isinstance(given, TaskStarted | TaskSnoozed | TaskCheckpointed):
        return False
    queued = store.queue.get(given.task_id)
    if isinstance(given, TaskCheckpointed):
        return queued is not None and queued.lease_epoch > given.lease_epoch
    if queued is None or queued.lease_epoch == given.lease_epoch:
        return queued is None
    # That a lease was given back is news until its successor starts.
    return queued.started or isinstance(given, TaskStarted)


def complete_input(store: Store, plan: Plan, given: Input) -> Input:
    """An inbox row of a report is small; the result itself is read beside it."""
    if not isinstance(given, TaskReported):
        return given
    for result in store.results[given.task_id]:
        if result.lease_epoch == given.lease_epoch:
            return replace(
                given,
                output=_as_output(plan, given.node_id, result.output, is_large=result.is_large),
                error_kind=result.error_kind,
                error_message=None if result.success else f"attempt {result.attempt} failed as {result.error_kind}",
                records=result.records,
            )
    raise LookupError(f"no result for {given.task_id} / {given.lease_epoch}")


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
    """Times that have passed in jobs of this owner, except for tasks whose result is already waiting."""
    now = store.clock()
    waiting = {
        row.task_id: None
        for row in store.inbox.values()
        if row.visible_at <= now and isinstance(row.given, TaskReported)
    }
    return timers_of(store, owner_id, now, waiting)


def timers_of(
    store: Store, owner_id: str, until: datetime | None = None, waiting: Mapping[str | None, None] | None = None
) -> list[tuple[str, TimerDue]]:
    """All timers of this owner's jobs, or those that pass until then."""
    found = []
    for (job_id, node_id), row in store.timers.items():
        job = store.jobs[job_id]
        if job.owner_id != owner_id or job.status in JOB_TERMINAL or row.task_id in (waiting or {}):
            continue
        for timer, at in ((Timer.RETRY, row.next_attempt_at), (Timer.DEADLINE, row.deadline_at)):
            if at is not None and (until is None or at <= until):
                found.append((job_id, TimerDue(node_id, row.attempt, timer)))
    return found
