"""What workers report about tasks: results, checkpoints, logs, and the values too large to stand inline."""

from typing import ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Attempt,
    Chunk,
    Count,
    Flag,
    Holder,
    Id,
    JsonObject,
    JsonValue,
    Label,
    LargeJsonList,
    LogText,
    Message,
    Milliseconds,
    Name,
    Namespace,
    NodeName,
    Number,
    NumberedByDatabase,
    Percent,
    Sha256,
    Stamped,
    Timestamp,
)
from rmhdag.models.events import ErrorKind
from rmhdag.models.states import TaskStatus
from rmhdag.models.table import Check, Index, Row, Table, one_of

# The outcomes of which a task can have only one, whatever number of leases it took.
ACCEPTED = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})


class TaskResult(Row):
    """What became of one lease of a task. Leases that were lost keep their row; one row per task is accepted.

    `processed` is for people: it is set in quiet moments, some time after the owner has handled the result. The
    orchestrator works from the inbox.
    """

    table: ClassVar[Table] = Table(
        name="dag_task_results",
        key=("task_id", "lease_epoch"),
        indexes=(
            Index("accepted", ("task_id",), unique=True, where=one_of("status", ACCEPTED)),
            Index("reported", ("reported_at",), method="brin"),
        ),
        checks=(
            Check("attempt_positive", "attempt >= 1"),
            Check("lease_positive", "lease_epoch >= 1"),
            Check("duration_not_negative", "execution_duration_ms >= 0"),
            Check("percent_range", "progress_percent BETWEEN 0 AND 100"),
            Check("progress_not_negative", "progress_current >= 0 AND progress_total >= 0"),
            Check("failed_has_kind", "status <> 'failed' OR error_kind IS NOT NULL"),
        ),
        storage={
            "fillfactor": "85",
            "autovacuum_vacuum_scale_factor": "0.05",
            "autovacuum_vacuum_insert_scale_factor": "0.1",
        },
    )

    task_id: Id
    lease_epoch: Number
    job_id: Id
    node_id: NodeName
    namespace: Namespace = "default"
    attempt: Attempt
    status: TaskStatus
    processed: Flag = False
    worker_id: Id | None = None
    error_kind: ErrorKind | None = None
    execution_duration_ms: Milliseconds | None = None
    progress_current: Number | None = None
    progress_total: Number | None = None
    progress_percent: Percent | None = None
    started_at: Timestamp | None = None
    reported_at: Stamped
    checkpoint_phase: Name | None = None
    progress_message: Message | None = None
    error_message: Message | None = None
    metrics: JsonObject = Field(default_factory=dict)
    checkpoint_data: JsonValue | None = None
    output: JsonValue | None = None
    # What the handler wants published, or a reference to it.
    records: JsonValue | None = None
    # Why it failed, as far as the handler named a code, and what it warns of: see `models.handler_result`.
    error: JsonObject | None = None
    warnings: LargeJsonList | None = None


class Checkpoint(Row):
    """The history of saved checkpoints; the node row holds the one that a resume uses."""

    table: ClassVar[Table] = Table(
        name="dag_checkpoints",
        key=("checkpoint_id",),
        indexes=(Index("node", ("job_id", "node_id", "checkpoint_id")),),
        checks=(Check("lease_positive", "lease_epoch >= 1"),),
    )

    checkpoint_id: NumberedByDatabase | None = None
    task_id: Id
    lease_epoch: Number
    job_id: Id
    node_id: NodeName
    namespace: Namespace = "default"
    phase: Name
    artifact_hash: Sha256 | None = None
    saved_at: Stamped
    data: JsonValue | None = None


class Payload(Row):
    """One chunk of a value that is stored once under its hash; a reference names hash, size and media type.

    An upload in chunks stands under a name of its own, with the media type `unfinished`, until its hash is checked.
    """

    table: ClassVar[Table] = Table(
        name="dag_payloads",
        key=("namespace", "sha256", "chunk_index"),
        indexes=(
            Index("age", ("created_at",), method="brin"),
            Index("unfinished", ("created_at",), where="media_type = 'unfinished'"),
        ),
        checks=(
            Check("chunk_of_many", "chunk_index >= 0 AND chunk_index < chunk_count"),
            Check("size_range", "size_bytes BETWEEN 0 AND 67108864"),
            Check("chunk_size", "octet_length(data) <= 1048576"),
        ),
    )

    namespace: Namespace = "default"
    sha256: Sha256
    chunk_index: Count
    chunk_count: Attempt
    size_bytes: Number
    media_type: Label = "application/json"
    created_at: Stamped
    # False for those of earlier versions, which recorded no uses: they are kept.
    has_recorded_uses: Flag = False
    data: Chunk


class PayloadUse(Row):
    """Who needs a payload: written in the transaction that writes the payload, or that passes a reference on.

    A holder is a job id; `asset:<asset_id>/<revision>` for the outputs of a revision, which outlive its job; or
    `payload:<sha256>` for a payload that refers to others. The code that removes a holder removes its uses.

    A payload without any use may be removed once `created_at` of its chunk 0 is a day old: each writer renews that time
    before it adds its use, so a removal that locks chunk 0 and looks at the time again cannot take what is needed anew.
    All chunks go in one transaction, together with the uses whose holder is that payload.
    """

    table: ClassVar[Table] = Table(
        name="dag_payload_uses",
        key=("namespace", "sha256", "holder"),
        indexes=(Index("holder", ("holder",)),),
    )

    namespace: Namespace = "default"
    sha256: Sha256
    holder: Holder
    created_at: Stamped


class TaskLog(Row):
    """A piece of what a task wrote; at most 1 MB per lease, then `truncated`."""

    table: ClassVar[Table] = Table(
        name="dag_task_logs",
        key=("task_id", "lease_epoch", "chunk_index", "created_at"),
        checks=(
            Check("lease_positive", "lease_epoch >= 1"),
            Check("chunk_not_negative", "chunk_index >= 0 AND line_count >= 0"),
            Check("chunk_size", "octet_length(content) <= 65536"),
        ),
        storage={"autovacuum_vacuum_insert_scale_factor": "0.2"},
        partition_by="created_at",
    )

    task_id: Id
    lease_epoch: Number
    chunk_index: Count
    created_at: Stamped
    job_id: Id
    node_id: NodeName
    namespace: Namespace = "default"
    line_count: Count
    truncated: Flag = False
    content: LogText
