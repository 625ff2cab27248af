"""Jobs as they are submitted, listed, shown, cancelled and rerun over HTTP."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, FailFast, Field, ValidationInfo, field_validator, model_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.problems import ProblemBody
from rmhdag.models.api.progress import JobProgress
from rmhdag.models.columns import Id, IdempotencyKey, InputJsonObject, Name, Priority, ShownObject, Url, varchar
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.labels import GivenKey, Labels
from rmhdag.models.limits import BODY_BYTES, JOBS_IN_A_BATCH, LABELS_OF_A_JOB, REASON_CHARACTERS
from rmhdag.models.plain_text import refuse_deceiving, refuse_deceiving_lines
from rmhdag.models.states import JobEnding, JobStatus

MOST_IN_A_BATCH = JOBS_IN_A_BATCH
Version = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
ReasonText = Annotated[str, varchar(REASON_CHARACTERS)]


class RequestBody(ApiModel):
    """A field that is not known is refused: it may be misspelt, or one that callers do not set."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*")
    @classmethod
    def _refuse_deceiving(cls, value: Any, info: ValidationInfo) -> Any:
        """Here and not in the columns: what is stored already must stay readable."""
        if not isinstance(value, str):
            return value
        return refuse_deceiving_lines(value) if info.field_name == "reason" else refuse_deceiving(value)


class JobSubmission(RequestBody):
    """What to run, and how."""

    max_body_bytes: ClassVar[int] = BODY_BYTES

    workflow_id: Name
    version: Version | None = Field(default=None, description="The newest, if not given")
    input_params: InputJsonObject = Field(default_factory=dict)
    priority: Priority = Field(default=0, description="10 is most urgent")
    fairness_key: Name | None = Field(
        default=None, description="At equal priority keys take turns; the submitter, if not given"
    )
    correlation_id: Id | None = Field(default=None, description="The caller's own name for it")
    callback_url: Url | None = Field(
        default=None, description="URL to notify when the job finishes; http or https, and public"
    )
    idempotency_key: IdempotencyKey | None = Field(
        default=None, description="The same key and content again answers with the same job; so does the header"
    )
    submitted_by: Name | None = Field(default=None, description="In whose name; only with the scope `admin`")
    labels: Labels = Field(default_factory=dict, description="Keys and texts to find it by; reruns have the same")


class SubmissionRequest(JobSubmission):
    """One job, or what would become of it."""

    dry_run: bool = Field(default=False, strict=True, description="Say what would happen, and create nothing")


class JobBatch(RequestBody):
    max_body_bytes: ClassVar[int] = BODY_BYTES

    jobs: list[Any] = Field(
        min_length=1,
        max_length=MOST_IN_A_BATCH,
        description="Each a `JobSubmission`; one that is none is answered as such and does not hinder the others",
    )


class BatchAnswer(ApiModel):
    """`job_id` or `problem`. `repeated`: the job was there already, by its idempotency key."""

    index: int
    job_id: str | None = None
    repeated: bool = False
    problem: ProblemBody | None = None


class BatchAnswers(ApiModel):
    created: int
    repeated: int
    refused: int
    jobs: list[BatchAnswer]


class Reason(ApiModel):
    """Why something does not run: a code, one sentence, and what to do."""

    node_id: str | None = None
    reason_code: str
    reason_text: str
    hint: str | None = None


class NodeCounts(ApiModel):
    """All nodes by status, children of fan-outs included; those that are not born yet count as pending."""

    total: int = 0
    pending: int = 0
    ready: int = 0
    dispatched: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0


class JobSummary(ApiModel):
    """A line of a list."""

    job_id: str
    workflow_id: str
    workflow_version: int
    status: JobStatus
    ending: JobEnding | None = Field(default=None, description="How it will end, while it drains")
    priority: int
    submitted_by: str
    correlation_id: str | None = None
    rerun_of: str | None = None
    parent_job_id: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error_message: str | None = None
    duration_seconds: float | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class JobPage(ApiModel):
    jobs: list[JobSummary]
    next_cursor: str | None = Field(default=None, description="`cursor` of the next page; null on the last")
    progress: list[JobProgress] | None = Field(None, description="If the query asks for it: of jobs that run")


class JobCounts(ApiModel):
    """How many jobs a list has, by status."""

    counts: dict[JobStatus, int] = Field(description="Each at most `most`: there may be more")
    most: int


class JobReference(ApiModel):
    job_id: str
    status: JobStatus


class StoredJob(JobSummary):
    """What the row of a job says by itself."""

    namespace: str
    workflow_hash: str
    fairness_key: str
    idempotency_key: str | None = None
    callback_url: str | None = Field(default=None, description="Without its query: receivers keep keys in there")
    request_id: str | None = None
    asset_id: str | None = None
    revision: int | None = None
    parent_node_id: str | None = None
    root_job_id: str
    updated_at: datetime
    owner_id: str | None = None
    owner_epoch: int
    owner_heartbeat_at: datetime | None = None
    version: int
    input_params: ShownObject
    result_data: ShownObject | None = Field(
        default=None,
        description="The result of the job. Values above 64 KB are references, "
        '`{"rmhdag:payload": {sha256, size_bytes, media_type}}`; the values are at '
        "`/api/v1/jobs/{job_id}/payloads/{sha256}`",
    )
    error: ErrorView | None = Field(
        default=None, description="The error of the node that failed the job, if it has a code"
    )
    warnings: list[WarningView] = Field(
        default_factory=list, description="Of all results that it uses, summed by code; at most 100 kinds are kept"
    )


class JobView(StoredJob):
    """All about one job but its nodes."""

    node_counts: NodeCounts
    reruns: list[JobReference] = Field(default_factory=list, description="Jobs that rerun this one, oldest first")
    reason: Reason | None = Field(
        default=None, description="What the job waits for, if it waits; null for jobs with many nodes"
    )


class CancelRequest(RequestBody):
    reason: ReasonText | None = None


class CommandAnswerBody(ApiModel):
    """`outcome` null: accepted, and the job's owner has not answered within two seconds."""

    job_id: str
    command_id: str
    outcome: CommandOutcome | None
    reason: str


class LabelChanges(RequestBody):
    """Other labels stay as they are."""

    put: Labels = Field(default_factory=dict, description="Labels that the job gets, or that get another value")
    remove: Annotated[list[GivenKey], FailFast()] = Field(
        default_factory=list,
        max_length=LABELS_OF_A_JOB,
        description="Keys of labels that go, if the job has them",
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        both = self.put.keys() & set(self.remove)
        if both:
            raise ValueError(f"the label {min(both)!r} is put and removed: leave one of the two out")
        return self


class JobLabels(ApiModel):
    job_id: str
    labels: dict[str, str] = Field(description="All that the job has now")
    changed: bool = Field(description="Whether that is different from before")


class RetryRequest(RequestBody):
    """Runs again what failed or never ran, as a new job."""

    dry_run: bool = Field(default=False, strict=True, description="Only return what would run again")
    idempotency_key: IdempotencyKey | None = None


class RerunRequest(RetryRequest):
    """As a retry; more of the job runs again if it is named, or if it reads a parameter that is changed."""

    max_body_bytes: ClassVar[int] = BODY_BYTES

    input_params: InputJsonObject = Field(
        default_factory=dict, description="Parameters that change; the others stay as they were"
    )
    from_nodes: Annotated[list[Id], FailFast()] = Field(
        default_factory=list, max_length=1_000, description="These nodes and all behind them, too"
    )
    everything: bool = Field(default=False, strict=True, description="Reuse nothing")

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        if self.everything and self.from_nodes:
            raise ValueError("everything runs again, or what from_nodes names: give one of the two")
        return self


class RerunAnswer(ApiModel):
    """`job_id` is the new job's; null after a dry run."""

    job_id: str | None
    rerun_of: str
    dry_run: bool
    input_params: ShownObject
    again: list[str] = Field(description="Nodes that run again")
    reused: list[str] = Field(description="Nodes whose outcome is taken over")
    keeps_children: list[str] = Field(description="Fan-outs that run again and keep their finished children")
