"""What a worker without a database says over HTTP, and what it is answered.

Whatever it says about a task carries the task's lease, and is answered item by item.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, StringConstraints, model_validator

from rmhdag.models.data_warnings import MOST_KINDS
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import DataWarning, HandlerError
from rmhdag.models.id_types import TaskId, WorkerId
from rmhdag.models.json_values import MAX_INTEGER, NotJsonError, check_json
from rmhdag.models.leases import ReturnReason
from rmhdag.models.limits import (
    BODY_BYTES,
    CHECKPOINT_ROW_BYTES,
    INLINE_BYTES,
    LOG_CHUNK_BYTES,
    MOST_RECORDS,
    PAYLOAD_BYTES,
    RESULT_BYTES,
)
from rmhdag.models.messages import SCHEMA_VERSION, SchemaVersion
from rmhdag.models.plain_text import refuse_deceiving, refuse_deceiving_lines
from rmhdag.models.records import AnyRecord
from rmhdag.models.states import TaskStatus

MOST_CLAIMED = 500
MOST_SLOTS = 1_000
MOST_WAIT_SECONDS = 30.0
MOST_ITEMS = 1_000
MOST_HELD = 50_000
STATS_BYTES = 8 * 1024
WEEK_SECONDS = 7 * 86_400.0
HANDLER = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$"

QueueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
HandlerName = Annotated[str, StringConstraints(pattern=HANDLER, max_length=64)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Epoch = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Whole = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Small = Annotated[int, Field(ge=0, le=2**31 - 1)]
WaitSeconds = Annotated[float, Field(ge=0, le=MOST_WAIT_SECONDS, allow_inf_nan=False)]
Text2000 = Annotated[str, StringConstraints(max_length=2000)]
Label = Annotated[str, StringConstraints(max_length=128), AfterValidator(refuse_deceiving)]
Description = Annotated[Text2000, AfterValidator(refuse_deceiving_lines)]


def _bounded(max_bytes: int) -> AfterValidator:
    def check(value: Any) -> Any:
        try:
            return check_json(value, max_bytes=max_bytes)
        except NotJsonError as error:
            raise ValueError(str(error)) from None

    return AfterValidator(check)


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("a name occurs twice: keep one")
    return names


Queues = Annotated[list[QueueName], Field(min_length=1, max_length=64), AfterValidator(_distinct)]


class Said(BaseModel):
    # Strictly: a number is not a truth value, and a text is no number.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class WorkerCall(Said):
    """Whatever a worker says, it says who it is, and in which version of this language."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    worker_id: WorkerId


class LeasedTask(Said):
    """Only the newest lease of a task entitles to say anything about it."""

    task_id: TaskId
    lease_epoch: Epoch

    @property
    def pair(self) -> tuple[str, int]:
        return self.task_id, self.lease_epoch


class OfferedHandler(Said):
    handler: HandlerName
    aliases: Annotated[list[HandlerName], Field(max_length=50)] = []
    queue: QueueName | None = None
    timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    light: bool = False
    version: Label = ""
    description: Description = ""
    params_schema: Annotated[dict[str, Any], _bounded(RESULT_BYTES)] = {}
    output_schema: Annotated[dict[str, Any], _bounded(RESULT_BYTES)] = {}


class RegisterWorker(WorkerCall):
    """The id is new with each start. `before` is the one under which the same process was declared dead."""

    max_body_bytes: ClassVar[int] = BODY_BYTES

    before: WorkerId | None = None
    host: Label
    process_id: Small = 0
    version: Label
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)]
    queues: Queues
    handlers: Annotated[list[OfferedHandler], Field(max_length=2_000), FailFast()] = Field(
        default=[], description="Only tasks of these handlers are returned; without any, all tasks of the queues"
    )

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        names: set[str] = set()
        for name in self.handler_names():
            if name in names:
                raise ValueError(f"handlers: the name {name!r} occurs twice: a name belongs to one handler")
            names.add(name)
        return self

    def handler_names(self) -> Iterator[str]:
        """With their aliases."""
        for manifest in self.handlers:
            yield manifest.handler
            yield from manifest.aliases


class RegisteredWorker(BaseModel):
    worker_id: str
    namespace: str = Field(description="The key's namespace: only its tasks are returned")
    drain: bool = Field(default=False, description="The worker should claim no more tasks, finish its work and leave")


class Heartbeat(Said):
    schema_version: SchemaVersion = SCHEMA_VERSION
    draining: bool = False
    stats: Annotated[dict[str, Any], _bounded(STATS_BYTES)] = {}


class ClaimTasks(WorkerCall):
    queues: Queues = Field(description="In the order in which they are looked at")
    limit: Annotated[int, Field(ge=1, le=MOST_CLAIMED)] = 1
    wait_seconds: WaitSeconds = Field(default=0.0, description="How long to wait for the first task")


class ClaimSuspect(WorkerCall):
    queues: Queues


class TaskToRun(BaseModel):
    """A task and its lease. A parameter, or a part of one, that is
    `{"rmhdag:payload": {sha256, size_bytes, media_type}}` stands for a stored payload."""

    task_id: str
    job_id: str
    node_id: str
    queue: str
    handler: str
    params: dict[str, Any]
    timeout_seconds: int
    attempt: int
    lease_epoch: int
    lease_losses: int
    priority: int
    checkpoint_phase: str | None
    checkpoint_data: Any
    trace_parent: str | None
    order_key: int
    namespace: str


SuspectWaits = Annotated[
    bool, Field(description="A task that may have killed two workers waits for a worker to itself")
]


class TasksToRun(BaseModel):
    tasks: list[TaskToRun]
    suspect_waits: SuspectWaits


class SuspectToRun(BaseModel):
    task: TaskToRun | None


class WaitForTasks(Said):
    queues: Queues
    after: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        default=None, description="`place` of the previous response; without it the response comes at once"
    )
    wait_seconds: WaitSeconds = MOST_WAIT_SECONDS


class Rang(BaseModel):
    """A hint that there may be work; a claim finds out."""

    rang: bool
    place: str


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    STALE = "stale"
    REFUSED = "refused"


class TaskOutcome(BaseModel):
    task_id: str
    lease_epoch: int
    outcome: Verdict = Field(description="`stale`: the lease is not this worker's, or not any more; nothing changed")
    reason: str | None = None


class TaskOutcomes(BaseModel):
    """In the order of what was said."""

    outcomes: list[TaskOutcome]


class ReturnedTask(LeasedTask):
    delay_seconds: Annotated[float, Field(ge=0, le=WEEK_SECONDS, allow_inf_nan=False)] | None = Field(
        default=None, description="null if it never ran; else how long until it is offered again"
    )
    reason: (
        Literal[
            ReturnReason.WORKER_STOPPING,
            ReturnReason.WORKER_FROZEN,
            ReturnReason.WORKER_BUSY,
            ReturnReason.NO_HANDLER,
        ]
        | None
    ) = Field(default=None, description="Why it is returned; null if its handler asked to be called again later")


class ReleaseTasks(WorkerCall):
    tasks: Annotated[list[ReturnedTask], Field(min_length=1, max_length=MOST_ITEMS), FailFast()]


class StartedTasks(WorkerCall):
    max_body_bytes: ClassVar[int] = BODY_BYTES

    tasks: Annotated[list[LeasedTask], Field(min_length=1, max_length=MOST_HELD), FailFast()]


class SentPayload(Said):
    """The reference of a payload that was sent before."""

    sha256: Sha256
    size_bytes: Annotated[int, Field(ge=0, le=PAYLOAD_BYTES)]
    media_type: Literal["application/json"]


class ReportedTask(LeasedTask):
    """`output` of more than 64 KB is stored apart; one of many megabytes is sent as a payload before, and
    `stored_output` refers to it."""

    status: Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED]
    error_kind: (
        Literal[
            ErrorKind.HANDLER_ERROR,
            ErrorKind.NON_RETRYABLE,
            ErrorKind.TIMEOUT,
            ErrorKind.WORKER_DIED,
            ErrorKind.OUTPUT_REFUSED,
        ]
        | None
    ) = None
    error_message: Text2000 | None = None
    error: HandlerError | None = Field(default=None, description="Code and category of a failure, if they are known")
    duration_ms: Whole = 0
    started_ms_ago: Annotated[float, Field(ge=0, le=30 * 86_400_000, allow_inf_nan=False)] = 0.0
    output: dict[str, Any] | None = None
    stored_output: SentPayload | None = Field(default=None, description="Instead, if it was sent as a payload")
    metrics: Annotated[dict[str, Any], _bounded(INLINE_BYTES)] | None = None
    records: Annotated[list[AnyRecord], FailFast()] = Field(
        default=[],
        max_length=MOST_RECORDS,
        description="Changes of the business domain, applied when the node completes",
    )
    stored_records: SentPayload | None = Field(default=None, description="Instead, if they were sent as a payload")
    warnings: Annotated[list[DataWarning], FailFast()] = Field(
        default=[], max_length=MOST_KINDS + 1, description="What a person should know about the data"
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if (self.status is TaskStatus.FAILED) != (self.error_kind is not None):
            raise ValueError("a failed task has an error_kind, and no other has")
        if self.error is not None and self.status is not TaskStatus.FAILED:
            raise ValueError("only a failed task has an error")
        if (self.records or self.stored_records) and self.status is not TaskStatus.COMPLETED:
            raise ValueError("only a completed task publishes records")
        if self.records and self.stored_records:
            raise ValueError("records and stored_records: give one of them")
        if self.output is not None and self.stored_output is not None:
            raise ValueError("output and stored_output: give one of them")
        return self


class ReportTasks(WorkerCall):
    max_body_bytes: ClassVar[int] = BODY_BYTES

    results: Annotated[list[ReportedTask], Field(min_length=1, max_length=MOST_ITEMS), FailFast()]


class TaskProgressed(LeasedTask):
    current: Whole
    total: Whole | None = None
    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    message: Text2000 | None = None


class TellProgress(WorkerCall):
    max_body_bytes: ClassVar[int] = BODY_BYTES

    progress: Annotated[list[TaskProgressed], Field(min_length=1, max_length=MOST_ITEMS), FailFast()]


class TaskCheckpoint(LeasedTask):
    phase: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    data: Annotated[Any, _bounded(CHECKPOINT_ROW_BYTES)] = None
    artifact_hash: Sha256 | None = None


class SaveCheckpoints(WorkerCall):
    max_body_bytes: ClassVar[int] = BODY_BYTES

    checkpoints: Annotated[list[TaskCheckpoint], Field(min_length=1, max_length=100), FailFast()]


class TaskLogChunk(LeasedTask):
    chunk_index: Small
    line_count: Small
    truncated: bool = False
    content: str

    @model_validator(mode="after")
    def _fits_a_row(self) -> Self:
        if len(self.content.encode()) > LOG_CHUNK_BYTES:
            raise ValueError(f"content is larger than {LOG_CHUNK_BYTES} bytes: cut it into chunks")
        return self


class KeepLogs(WorkerCall):
    max_body_bytes: ClassVar[int] = BODY_BYTES

    chunks: Annotated[list[TaskLogChunk], Field(min_length=1, max_length=100), FailFast()]


class HeldTasks(WorkerCall):
    """All that the worker believes to hold."""

    max_body_bytes: ClassVar[int] = BODY_BYTES

    tasks: Annotated[list[LeasedTask], Field(max_length=MOST_HELD), FailFast()] = []


class HeldTaskState(StrEnum):
    HELD = "held"
    CANCELLED = "cancelled"
    GONE = "gone"


class HeldTaskAnswer(BaseModel):
    task_id: str
    lease_epoch: int
    state: HeldTaskState = Field(description="`cancelled`: still held, to be stopped and reported; `gone`: end it")


class HeldTasksAnswer(BaseModel):
    tasks: list[HeldTaskAnswer]
    unknown: list[HeldTaskAnswer] = Field(description="Held by the worker without its knowing: give them back")
    suspect_waits: SuspectWaits


class FinishPayload(Said):
    size_bytes: Annotated[int, Field(ge=0, le=PAYLOAD_BYTES)]
    chunk_count: Annotated[int, Field(ge=1, le=64)]


class PayloadReference(BaseModel):
    sha256: str
    size_bytes: int
    media_type: str


class StoredPayload(PayloadReference):
    chunk_count: int
