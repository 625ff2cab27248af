"""What each effect does to the rows, inside the transaction that commits it and in the order the engine gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmhdag.engine import effects as fx
from rmhdag.engine.inputs import CancelJob, ChildJobEnded, Output, TaskReported
from rmhdag.lab.simulation.rows import CommandRow, EventRow, JobRow, JobWrite, NodeRow, QueueRow
from rmhdag.models.states import JOB_TERMINAL, JobStatus, NodeStatus

if TYPE_CHECKING:
    from rmhdag.lab.simulation.store import Store


class StoreError(Exception):
    """The database would have refused this statement: a key that exists, a row that does not."""


def revokes_reported_task(store: Store, write: JobWrite) -> bool:
    """A task was reported after its deadline was decided upon: the job has to be looked at again."""
    revoked = [effect.task_id for effect in write.effects if isinstance(effect, fx.TaskRevoked)]
    return bool(revoked) and any(
        row.task_id in revoked and isinstance(row.given, TaskReported) and number not in write.consumed
        for number, row in store.inbox.items()
    )


def _nodes_created(store: Store, job: JobRow, effect: fx.NodesCreated) -> None:
    rows = store.nodes[job.job_id]
    if rows:
        raise StoreError(f"{job.job_id}: its nodes exist already")
    for node_id, max_retries in zip(effect.node_ids, effect.max_retries, strict=True):
        rows[node_id] = NodeRow(node_id, max_retries)


def _children_created(store: Store, job: JobRow, effect: fx.ChildrenCreated) -> None:
    rows = store.nodes[job.job_id]
    for child in effect.children:
        if child.node_id in rows:
            raise StoreError(f"{job.job_id}: child {child.node_id} exists already")
        row = NodeRow(child.node_id, effect.max_retries, NodeStatus.READY)
        row.parent_node_id = effect.fan_out_id
        row.fan_out_index = child.index
        row.input_params = child.input_params
        if child.error_message is not None:
            row.status = NodeStatus.FAILED
            row.error_message = child.error_message
        elif child.reused_task_id is not None:
            row.status = NodeStatus.COMPLETED
            row.reused_task_id = child.reused_task_id
        rows[child.node_id] = row


def _children_cancelled(store: Store, job: JobRow, effect: fx.ChildrenCancelled) -> None:
    rows = store.nodes[job.job_id]
    for index in range(effect.start, effect.stop):
        row = rows[f"{effect.fan_out_id}__{index}"]
        if row.status is NodeStatus.READY:
            row.status = NodeStatus.CANCELLED
            row.next_attempt_at = row.deadline_at = None
            store.timers.pop((job.job_id, row.node_id), None)


def _node_changed(store: Store, job: JobRow, effect: fx.NodeChanged) -> None:
    row = store.nodes[job.job_id].get(effect.node_id)
    if row is None:
        raise StoreError(f"{job.job_id}: there is no row of node {effect.node_id}")
    row.status = effect.status
    row.attempt = effect.attempt
    row.lease_losses = effect.lease_losses
    row.next_attempt_at = effect.next_attempt_at
    row.deadline_at = effect.deadline_at
    if row.next_attempt_at is None and row.deadline_at is None:
        store.timers.pop((job.job_id, row.node_id), None)
    else:
        store.timers[job.job_id, row.node_id] = row
    if effect.status is NodeStatus.COMPLETED:
        row.error_message = None
    for column in ("task_id", "input_params", "output", "error_message", "reused_task_id", "checkpoint_phase"):
        value = getattr(effect, column)
        if value is not None:
            setattr(row, column, value)


def _task_queued(store: Store, job: JobRow, effect: fx.TaskQueued) -> None:
    if effect.task_id in store.queue:
        raise StoreError(f"{job.job_id}: task {effect.node_id}/{effect.attempt} is in the queue already")
    params = effect.params
    if params is None:
        params = store.nodes[job.job_id][effect.node_id].input_params
    if params is None:
        raise StoreError(f"{job.job_id}: {effect.node_id} is queued without parameters")
    store.queue[effect.task_id] = QueueRow(
        effect.task_id, job.job_id, effect.node_id, effect.attempt, effect.queue, effect.timeout_seconds, params
    )
    store.queue[effect.task_id].lease_losses = effect.lease_losses


def _task_requeued(store: Store, job: JobRow, effect: fx.TaskRequeued) -> None:
    row = store.queue.get(effect.task_id)
    if row is not None and row.lost and row.lease_epoch == effect.lease_epoch:
        row.lost = False
        row.lease_losses = effect.lease_losses
        store.mint_lease(row)  # from here on the zombie's report matches nothing


def _task_revoked(store: Store, job: JobRow, effect: fx.TaskRevoked) -> None:
    store.queue.pop(effect.task_id, None)


def _tasks_withdrawn(store: Store, job: JobRow, effect: fx.TasksWithdrawn) -> None:
    for row in [row for row in store.queue.values() if row.job_id == job.job_id]:
        if row.worker_id is None and not row.lost:
            store.withdraw(row)
        else:
            row.cancel_requested = True


def _task_dead_lettered(store: Store, job: JobRow, effect: fx.TaskDeadLettered) -> None:
    store.dead_letters.append(effect.task_id)


def _job_changed(store: Store, job: JobRow, effect: fx.JobChanged) -> None:
    if job.status is JobStatus.PENDING and effect.status is JobStatus.RUNNING:
        job.started_at = store.clock()
    job.status = effect.status
    job.ending = effect.ending or job.ending
    job.result = effect.result if effect.result is not None else job.result
    job.error_message = effect.error_message or job.error_message


def _event_appended(store: Store, job: JobRow, effect: fx.EventAppended) -> None:
    row = EventRow(effect.seq, effect.event_type, effect.node_id, effect.task_id)
    store.events[job.job_id].append(row)


def _child_job_requested(store: Store, job: JobRow, effect: fx.ChildJobRequested) -> None:
    child = JobRow(effect.child_job_id, effect.workflow_id, effect.input_params)
    child.parent_job_id = job.job_id
    child.parent_node_id = effect.node_id
    child.parent_attempt = effect.attempt
    child.depth = effect.depth
    store.insert_job(child)


def _child_job_cancelled(store: Store, job: JobRow, effect: fx.ChildJobCancelled) -> None:
    child = store.jobs[effect.child_job_id]
    if child.status not in JOB_TERMINAL:
        job_input = CancelJob(job.job_id, effect.reason)
        store.issue(CommandRow(f"cancel-{child.job_id}", child.job_id, job_input))


def _parent_notified(store: Store, job: JobRow, effect: fx.ParentNotified) -> None:
    job_input = ChildJobEnded(effect.parent_node_id, job.parent_attempt, job.job_id, effect.status)
    job_input.output = None if effect.result is None else Output(effect.result)
    job_input.error_message = effect.error_message
    if effect.has_warnings:
        job_input.warnings = job.warnings
    store.put(effect.parent_job_id, job_input)


def _approval_requested(store: Store, job: JobRow, effect: fx.ApprovalRequested) -> None:
    store.approvals[job.job_id, effect.node_id] = None


def _approval_closed(store: Store, job: JobRow, effect: fx.ApprovalClosed) -> None:
    store.approvals.pop((job.job_id, effect.node_id), None)


def _records_published(store: Store, job: JobRow, effect: fx.RecordsPublished) -> None:
    store.published.append(effect.task_id)


def _warnings_counted(store: Store, job: JobRow, effect: fx.WarningsCounted) -> None:
    job.warnings = effect.warnings


def _nothing_to_write(store: Store, job: JobRow, effect: fx.Effect) -> None:
    """For the orchestrator itself; the rows show what is still owed if it dies."""


RULES: dict[type, Callable[[Store, JobRow, Any], None]] = {
    fx.NodesCreated: _nodes_created,
    fx.ChildrenCreated: _children_created,
    fx.ChildrenCancelled: _children_cancelled,
    fx.NodeChanged: _node_changed,
    fx.TaskQueued: _task_queued,
    fx.TaskRequeued: _task_requeued,
    fx.TaskRevoked: _task_revoked,
    fx.TasksWithdrawn: _tasks_withdrawn,
    fx.TaskDeadLettered: _task_dead_lettered,
    fx.JobChanged: _job_changed,
    fx.EventAppended: _event_appended,
    fx.ChildJobRequested: _child_job_requested,
    fx.ChildJobCancelled: _child_job_cancelled,
    fx.ParentNotified: _parent_notified,
    fx.ApprovalRequested: _approval_requested,
    fx.ApprovalClosed: _approval_closed,
    fx.ApprovalDecided: _nothing_to_write,
    fx.RecordsPublished: _records_published,
    fx.WarningsCounted: _warnings_counted,
    fx.AggregationRequested: _nothing_to_write,
    fx.ContinueLater: _nothing_to_write,
    fx.CommandAnswered: _nothing_to_write,
}
