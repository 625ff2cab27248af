"""Rows on their way: tasks waiting for or held by workers, the owners' inbox, the outbox to brokers, dead letters."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Attempt,
    Count,
    Flag,
    Id,
    InputJsonObject,
    JsonObject,
    JsonValue,
    Label,
    LargeJsonObject,
    Message,
    Name,
    Namespace,
    NodeName,
    Number,
    NumberedByDatabase,
    OptionalName,
    OrderKey,
    Priority,
    RawText,
    Seconds,
    SmallJsonObject,
    Stamped,
    Timestamp,
)
from rmhdag.models.table import Check, Index, Row, Table

# Rows live for milliseconds and are gone: vacuum early and at full speed, or claims wade through the dead.
CHURNING = {
    "fillfactor": "70",
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "500",
    "autovacuum_analyze_scale_factor": "0.1",
    "autovacuum_vacuum_cost_delay": "0",
}


class QueueMessage(Row):
    """The one row of an attempt in flight. Only a claim of it, which mints `lease_epoch`, entitles a worker to run.

    Claimable rows have neither `worker_id` nor `available_at`; a delayed row gets a new `order_key` when it is due.
    Those with `lease_losses` are suspects, claimed one by one by workers that have nothing else.
    `concurrency_key` is reserved.
    """

    table: ClassVar[Table] = Table(
        name="dag_queue_messages",
        key=("task_id",),
        indexes=(
            Index("claimable", ("queue", "order_key"), where="worker_id IS NULL AND available_at IS NULL"),
            # For workers that have not all handlers of a queue: they need not walk past the tasks of others.
            Index("handlers", ("queue", "handler", "order_key"), where="worker_id IS NULL AND available_at IS NULL"),
            Index("delayed", ("available_at",), where="available_at IS NOT NULL"),
            Index("held", ("worker_id",), where="worker_id IS NOT NULL"),
            Index("job", ("job_id",)),
            Index("suspects", ("queue", "order_key"), where="lease_losses > 1"),
        ),
        checks=(
            Check("attempt_positive", "attempt >= 1"),
            Check("lease_not_negative", "lease_epoch >= 0 AND lease_losses >= 0"),
            Check("priority_range", "priority BETWEEN 0 AND 10"),
            Check("timeout_range", "timeout_seconds BETWEEN 1 AND 86400"),
            Check("held_is_claimed", "(worker_id IS NULL) = (claimed_at IS NULL)"),
            Check("held_has_lease", "worker_id IS NULL OR (lease_epoch >= 1 AND available_at IS NULL)"),
            Check("started_is_held", "started_at IS NULL OR worker_id IS NOT NULL"),
        ),
        storage=CHURNING,
    )

    task_id: Id
    job_id: Id
    node_id: NodeName
    namespace: Namespace = "default"
    queue: Name
    handler: Name
    order_key: OrderKey
    lease_epoch: Number = 0
    attempt: Attempt = 1
    lease_losses: Count = 0
    timeout_seconds: Seconds = 3600
    priority: Priority = 0
    cancel_requested: Flag = False
    worker_id: Id | None = None
    fairness_key: Name
    concurrency_key: Name | None = None
    created_at: Stamped
    available_at: Timestamp | None = None
    claimed_at: Timestamp | None = None
    started_at: Timestamp | None = None
    trace_parent: Name | None = None
    checkpoint_phase: Name | None = None
    params: LargeJsonObject = Field(default_factory=dict)
    checkpoint_data: JsonValue | None = None


class InboxKind(StrEnum):
    TASK_STARTED = "task_started"
    TASK_REPORTED = "task_reported"
    TASK_SNOOZED = "task_snoozed"
    TASK_LOST = "task_lost"
    TASK_CHECKPOINTED = "task_checkpointed"
    TASK_WITHDRAWN = "task_withdrawn"
    COMMAND = "command"
    DECIDED = "decided"
    CHILD_JOB_ENDED = "child_job_ended"


class InboxRow(Row):
    """Something that the owner of a job has to handle. The order per job is `inbox_id`.

    The key begins with the owner, so that reading is one range of one index; '' is a job without an owner.
    """

    table: ClassVar[Table] = Table(
        name="dag_inbox",
        key=("owner_id", "inbox_id"),
        checks=(
            Check("payload_small", "pg_column_size(payload) <= 16384"),
            Check("task_has_lease", "(task_id IS NULL) = (lease_epoch IS NULL)"),
        ),
        storage=CHURNING,
    )

    owner_id: OptionalName = ""
    inbox_id: NumberedByDatabase | None = None
    job_id: Id
    kind: InboxKind
    node_id: NodeName | None = None
    task_id: Id | None = None
    lease_epoch: Number | None = None
    created_at: Stamped
    payload: SmallJsonObject = Field(default_factory=dict)


class OutboxStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class OutboxRow(Row):
    """A message for an outside broker, written with its cause. Each try carries the same `message_id`."""

    table: ClassVar[Table] = Table(
        name="dag_outbox",
        key=("message_id",),
        indexes=(
            Index("due", ("next_attempt_at", "message_id"), where="status = 'pending'"),
            Index("settled", ("settled_at",), where="settled_at IS NOT NULL"),
        ),
        checks=(
            Check("settled_has_end", "(status = 'pending') = (settled_at IS NULL)"),
            Check("attempts_not_negative", "attempts >= 0"),
        ),
        storage=CHURNING,
    )

    message_id: Id
    namespace: Namespace = "default"
    destination: Name
    status: OutboxStatus = OutboxStatus.PENDING
    attempts: Count = 0
    created_at: Stamped
    next_attempt_at: Stamped
    settled_at: Timestamp | None = None
    last_error: Message | None = None
    trace_parent: Name | None = None
    body: LargeJsonObject


class DeadLetter(Row):
    """What cannot be handled, kept for a person: `body` if it could be read as JSON, else `raw`."""

    table: ClassVar[Table] = Table(
        name="dag_dead_letters",
        key=("dead_letter_id",),
        indexes=(
            Index("list", ("namespace", "dead_letter_id")),
            Index("open", ("namespace", "queue", "dead_letter_id"), where="settled_at IS NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            Index("age", ("created_at",)),
        ),
        checks=(
            Check("has_content", "body IS NOT NULL OR raw IS NOT NULL"),
            Check("lease_losses_not_negative", "lease_losses >= 0"),
        ),
    )

    dead_letter_id: Id
    namespace: Namespace = "default"
    queue: Name | None = None
    reason: Name
    error_message: Message | None = None
    job_id: Id | None = None
    node_id: NodeName | None = None
    task_id: Id | None = None
    message_id: Id | None = None
    worker_id: Id | None = None
    lease_losses: Count = 0
    created_at: Stamped
    settled_at: Timestamp | None = None
    settled_by: Name | None = None
    settled_as: Label | None = None
    details: JsonObject = Field(default_factory=dict)
    body: InputJsonObject | None = None
    raw: RawText | None = None
