"""What happened: the audit records of jobs and of orchestrators. Rows are only added; retention drops days."""

from typing import ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Id,
    JsonObject,
    Message,
    Milliseconds,
    Name,
    Namespace,
    NodeName,
    Number,
    NumberedByDatabase,
    Stamped,
    TransactionId,
)
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.table import Check, Index, Row, Table


class JobEvent(Row):
    """`seq` is minted by the job's owner, so a job's stream has an order of its own.

    `transaction_id` orders the stream of all jobs: readers stay below the oldest running transaction, because rows of
    different transactions become visible out of order.
    """

    table: ClassVar[Table] = Table(
        name="dag_job_events",
        key=("job_id", "seq", "created_at"),
        # Streams ask for the newest rows many times a second. A summary per block range would not do: it does not know
        # new blocks until they are vacuumed, and with 1,000,000 events each look read 29,000 blocks instead of 19.
        indexes=(Index("arrival", ("transaction_id",)),),
        checks=(Check("seq_positive", "seq >= 1"), Check("duration_not_negative", "duration_ms >= 0")),
        storage={"autovacuum_vacuum_insert_scale_factor": "0.1", "autovacuum_analyze_scale_factor": "0.1"},
        partition_by="created_at",
    )

    job_id: Id
    seq: Number
    created_at: Stamped
    namespace: Namespace = "default"
    transaction_id: TransactionId | None = None
    event_type: EventType
    event_status: EventStatus = EventStatus.INFO
    node_id: NodeName | None = None
    task_id: Id | None = None
    checkpoint_name: Name | None = None
    duration_ms: Milliseconds | None = None
    source_app: Name
    error_message: Message | None = None
    event_data: JsonObject = Field(default_factory=dict)


class OrchestratorEvent(Row):
    """An event of a process, not of a job."""

    table: ClassVar[Table] = Table(
        name="dag_orchestrator_events",
        key=("event_id",),
        indexes=(Index("owner", ("owner_id", "event_id")), Index("age", ("created_at",), method="brin")),
        checks=(Check("duration_not_negative", "duration_ms >= 0"),),
    )

    event_id: NumberedByDatabase | None = None
    owner_id: Id
    event_type: EventType
    event_status: EventStatus = EventStatus.INFO
    created_at: Stamped
    duration_ms: Milliseconds | None = None
    source_app: Name
    error_message: Message | None = None
    event_data: JsonObject = Field(default_factory=dict)
