"""The row that an effect becomes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from rmhdag.engine import effects as fx
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.states import NodeStatus
from rmhdag.services.reviews import decide_by_node
from rmhdag.store.batch_rows import (
    ApprovalRequest,
    DeadLetterRow,
    JobEventRow,
    NewNode,
    NodeChange,
    QueuedTaskRow,
    RevisionKey,
)
from rmhdag.store.settle import NodeDecision
from rmhdag.store.tasks import WARNED

if TYPE_CHECKING:
    from rmhdag.orchestrator.owned_jobs import OwnedJob


def encoded_size(value: Any) -> int:
    """The bytes of a value as JSON: for a small one the encoder is quicker than any estimate in Python."""
    return 0 if value is None else len(orjson.dumps(value, default=str))


# Every task brings three events, two changes and a row of the queue: built by position, which takes half as long as by
# keyword. tests/orchestrator/test_batch.py compares the order with the fields.


def event_row(job: OwnedJob, effect: fx.EventAppended) -> JobEventRow:
    return JobEventRow(
        job.job_id,
        effect.seq,
        job.namespace,
        effect.event_type,
        effect.event_status,
        effect.node_id,
        effect.task_id,
        effect.duration_ms,
        effect.error_message,
        effect.data,
    )


def task_row(job: OwnedJob, effect: fx.TaskQueued, order_key: int) -> QueuedTaskRow:
    return QueuedTaskRow(
        effect.task_id,
        job.job_id,
        effect.node_id,
        effect.queue,
        effect.handler,
        order_key,
        effect.attempt,
        effect.lease_losses,
        effect.timeout_seconds,
        job.priority,
        job.fairness_key,
        job.namespace,
        effect.params,
        job.trace_parent,
    )


def node_change(job_id: str, effect: fx.NodeChanged) -> NodeChange:
    return NodeChange(
        job_id,
        effect.node_id,
        effect.status,
        effect.attempt,
        effect.task_id,
        effect.lease_losses,
        effect.next_attempt_at,
        effect.deadline_at,
        effect.input_params,
        effect.output,
        effect.error_message,
        effect.error,
        effect.reused_task_id,
        effect.checkpoint_phase,
        effect.checkpoint_data,
        effect.duration_ms,
    )


def new_node(job: OwnedJob, node_id: str, max_retries: int) -> NewNode:
    """A node that waits for its dependencies."""
    return NewNode(job.job_id, node_id, job.namespace, NodeStatus.PENDING, max_retries)


def new_child(job: OwnedJob, effect: fx.ChildrenCreated, child: fx.NewChild) -> NewNode:
    status = NodeStatus.READY
    if child.error_message is not None:
        status = NodeStatus.FAILED
    elif child.reused_task_id is not None:
        status = NodeStatus.COMPLETED
    return NewNode(
        job.job_id,
        child.node_id,
        job.namespace,
        status,
        effect.max_retries,
        parent_node_id=effect.fan_out_id,
        fan_out_index=child.index,
        item_key=child.item_key,
        input_params=child.input_params,
        error_message=child.error_message,
        reused_task_id=child.reused_task_id,
    )


def born_with(new: NewNode, change: NodeChange) -> NewNode:
    """A node that is inserted as this change leaves it."""
    return new._replace(
        status=change.status,
        attempt=change.attempt,
        task_id=change.task_id or new.task_id,
        lease_losses=change.lease_losses,
        next_attempt_at=change.next_attempt_at,
        deadline_at=change.deadline_at,
        input_params=new.input_params if change.input_params is None else change.input_params,
        output=new.output if change.output is None else change.output,
        error_message=new.error_message if change.error_message is None else change.error_message,
        error=new.error if change.error_message is None else change.error,
        reused_task_id=new.reused_task_id if change.reused_task_id is None else change.reused_task_id,
    )


def merged_change(before: NodeChange, change: NodeChange) -> NodeChange:
    """Two changes of a node as one: what the later one leaves as it is comes from the earlier one."""
    return change._replace(
        task_id=change.task_id or before.task_id,
        input_params=before.input_params if change.input_params is None else change.input_params,
        output=before.output if change.output is None else change.output,
        error_message=before.error_message if change.error_message is None else change.error_message,
        error=before.error if change.error_message is None else change.error,
        reused_task_id=before.reused_task_id if change.reused_task_id is None else change.reused_task_id,
        checkpoint_phase=before.checkpoint_phase if change.checkpoint_phase is None else change.checkpoint_phase,
        checkpoint_data=before.checkpoint_data if change.checkpoint_data is None else change.checkpoint_data,
        duration_ms=before.duration_ms if change.duration_ms is None else change.duration_ms,
    )


def dead_letter_row(job: OwnedJob, effect: fx.TaskDeadLettered) -> DeadLetterRow:
    return DeadLetterRow(
        dead_letter_id=f"dl-{effect.task_id}",
        namespace=job.namespace,
        queue=effect.queue,
        reason="lease_lost",
        error_message=effect.reason,
        job_id=job.job_id,
        node_id=effect.node_id,
        task_id=effect.task_id,
        body={"task_id": effect.task_id, "job_id": job.job_id, "node_id": effect.node_id},
    )


def approval_request(job: OwnedJob, effect: fx.ApprovalRequested) -> ApprovalRequest:
    return ApprovalRequest(
        job_id=job.job_id,
        node_id=effect.node_id,
        namespace=job.namespace,
        deadline_at=effect.deadline_at,
        message=None if effect.message is None else effect.message[:MESSAGE_CHARACTERS],
        approvers=effect.approvers,
    )


def node_decision(revision: RevisionKey, effect: fx.ApprovalDecided) -> NodeDecision:
    decide = partial(
        decide_by_node,
        approved=effect.approved,
        decided_by=effect.decided_by,
        reason=effect.reason,
        clearance=effect.clearance,
    )
    return NodeDecision(revision, decide)


def cancel_command(effect: fx.ChildJobCancelled) -> dict[str, Any]:
    return {"kind": "cancel", "issued_by": "parent job", "body": {"reason": effect.reason}}


def child_end(job_id: str, effect: fx.ParentNotified) -> dict[str, Any]:
    end: dict[str, Any] = {"child_job_id": job_id, "status": effect.status, "error_message": effect.error_message}
    if effect.error is not None:
        end["error"] = effect.error
    if effect.has_warnings:
        end[WARNED] = True
    return end
