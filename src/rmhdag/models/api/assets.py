"""Orders of platforms, and assets with their revisions, as they are asked for and shown."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.jobs import ReasonText, RequestBody
from rmhdag.models.assets import ApprovalState, AssetKind, BlobState, Classification, ProcessingStatus
from rmhdag.models.columns import IdempotencyKey, InputJsonObject, Name, Priority, ShownObject, Url, varchar
from rmhdag.models.data_tables import TableState
from rmhdag.models.id_types import RequestId
from rmhdag.models.labels import Labels
from rmhdag.models.limits import BODY_BYTES
from rmhdag.models.plain_text import refuse_deceiving
from rmhdag.models.records import TableRole, Zone
from rmhdag.models.unpublishing import UnpublishingStatus

MOST_REFERENCES = 20


def _refuse_number(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError('references are text: write it in quotes, with its leading zeros ("0038272" is not 38272)')
    return value


Reference = Annotated[
    str, varchar(512, min_length=1), BeforeValidator(_refuse_number), AfterValidator(refuse_deceiving)
]
References = Annotated[
    dict[Annotated[Name, AfterValidator(refuse_deceiving)], Reference], Field(max_length=MOST_REFERENCES)
]
RevisionNumber = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]


class Subscriber(RequestBody):
    """Addresses that get the documents of OGC API – Processes: the results, or how the job stands."""

    success: Url = Field(description="Gets the results")
    failed: Url | None = Field(default=None, description="Gets the status of a job that failed or was cancelled")
    in_progress: Url | None = Field(
        default=None, description="Gets the status when the job starts, and when its content waits for review"
    )


class WorkOrderBody(RequestBody):
    """What a platform orders. A workflow that makes an asset needs to know whose it is."""

    max_body_bytes: ClassVar[int] = BODY_BYTES

    request_id: RequestId | None = Field(
        default=None, description="The caller's own; the same id and order again is answered with the same"
    )
    platform_id: Name | None = Field(
        default=None, description="Who orders: `ddh`, `arcgis`, or one that is set up here"
    )
    platform_refs: References | None = Field(
        default=None, description="What that platform calls it, as text; the same references are the same asset"
    )
    workflow_id: Name
    input_params: InputJsonObject = Field(default_factory=dict)
    submitted_by: Name | None = Field(default=None, description="In whose name; only with the scope `admin`")
    callback_url: Url | None = Field(
        default=None, description="URL to notify when the job finishes; http or https, and public"
    )
    subscriber: Subscriber | None = Field(
        default=None, description="Instead of `callback_url`, for orders over OGC API – Processes at the gateway"
    )
    priority: Priority = Field(default=0, description="10 is most urgent")
    idempotency_key: IdempotencyKey | None = None
    supersede: bool = Field(
        default=False,
        strict=True,
        description="If this asset is being processed with other parameters, cancel that job",
    )
    previous_version: Annotated[str, varchar(128, min_length=1)] | None = Field(
        default=None, description="The version label that this builds on; 409 if another one is served by now"
    )
    labels: Labels = Field(default_factory=dict, description="Keys and texts to find the order and its job by")
    dry_run: bool = Field(default=False, strict=True, description="Say what would happen, and create nothing")


class OrderAccepted(ApiModel):
    """`joined`: what was ordered is being processed already, for another request."""

    request_id: str
    workflow_id: str
    submitted_at: datetime
    status: Literal["accepted"] = "accepted"
    job_id: str | None
    asset_id: str | None = Field(description="Null if the workflow makes no asset")
    revision: int | None
    joined: bool


class RequestProgress(ApiModel):
    percent: float = Field(ge=0, le=100)


class RequestView(ApiModel):
    """How an order stands. A cancelled job shows as failed, with the error `cancelled`; so does content that was
    rejected, revoked or superseded. While a reviewer has to decide, the status is `awaiting_approval`, without result.
    """

    request_id: str
    client_id: str = Field(description="Whose order it is")
    client_request_id: str = Field(description="What its client calls it; clients of the gateway choose their own ids")
    workflow_id: str
    status: Literal["pending", "running", "awaiting_approval", "completed", "failed"]
    submitted_at: datetime
    completed_at: datetime | None
    result: dict[str, Any] | None
    error: str | None
    error_detail: ErrorView | None = Field(default=None, description="Code, category and what to do, if they are known")
    warnings: list[WarningView] = Field(default_factory=list, description="What to know about the data, by code")
    progress: RequestProgress
    platform_id: str | None
    submitted_by: str
    job_id: str | None = Field(description="The newest, if the first one was run again")
    asset_id: str | None
    revision: int | None
    joined: bool
    labels: dict[str, str] = Field(default_factory=dict, description="As the order gave them")


class AssetSummary(ApiModel):
    """`processing_status` is that of the newest revision; `current_revision` is what is served: the newest completed
    one that needs no approval or has one. `approval_state` and `classification` are of the newest one under review.
    """

    asset_id: str
    platform_id: str
    platform_refs: dict[str, str]
    kind: AssetKind
    processing_status: ProcessingStatus
    latest_revision: int
    current_revision: int | None
    current_job_id: str | None
    content_hash: str | None = Field(description="Of the current revision's data")
    approval_state: ApprovalState
    classification: Classification
    created_by: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    deleted_by: str | None


class AssetPage(ApiModel):
    assets: list[AssetSummary] = Field(description="Newest first")
    next_cursor: str | None


class RevisionSummary(ApiModel):
    revision: int
    status: ProcessingStatus
    source: str = Field(description="`processed`, or `rollback of n`")
    job_id: str | None = Field(description="Null for a rollback")
    content_hash: str | None
    created_by: str
    created_at: datetime
    completed_at: datetime | None
    error_message: str | None
    version_label: str | None = Field(description="What the platform calls this version")
    review_state: ApprovalState = Field(description="`none`: it needs no approval")
    clearance: Classification = Field(description="Who may see it, as the reviewer has decided")
    decided_by: str | None = Field(description="Of the newest decision")
    decided_at: datetime | None
    decision_reason: str | None
    unpublished_at: datetime | None = Field(
        default=None, description="Since then its files are deleted, and it is never served again"
    )


class RevisionPage(ApiModel):
    revisions: list[RevisionSummary] = Field(description="Newest first")
    next_cursor: str | None


class MadeBy(ApiModel):
    """The job of a revision, as far as the revision's history needs it."""

    workflow_id: str
    workflow_version: int
    workflow_hash: str
    input_params: ShownObject
    submitted_by: str
    rerun_of: str | None
    started_at: datetime | None
    completed_at: datetime | None


class DataTableView(ApiModel):
    """A table or view of a revision in the data database."""

    table_name: str = Field(description="Its public name while the revision is served")
    role: TableRole
    geometry_type: str
    feature_count: int
    state: TableState


class RevisionView(RevisionSummary):
    asset_id: str
    error: ErrorView | None = None
    warnings: list[WarningView] = Field(default_factory=list, description="Of its job, summed by code")
    outputs: dict[str, Any]
    footprint: Any = Field(
        description="GeoJSON: where its items are, else the boxes of its tables, else the output `bbox`; or null"
    )
    made_by: MadeBy | None = Field(
        default=None, description="How it was made; kept when the job is deleted. Null for a rollback"
    )
    tables: list[DataTableView] = Field(
        default_factory=list, description="Its tables in the data database; the first thousand"
    )


class VersionView(ApiModel):
    """A revision that the platform calls a version."""

    version_label: str
    revision: int
    status: ProcessingStatus
    review_state: ApprovalState
    served: bool = Field(description="Whether this is what users see")
    created_at: datetime


class UnpublishingView(ApiModel):
    """One revision that was unpublished, or of which a workflow asked for a preview (`dry_run`)."""

    unpublishing_id: str
    asset_id: str
    revision: int
    status: UnpublishingStatus = Field(
        description="`pending`: files are still to be deleted; `partial`: some are stuck"
    )
    forced: bool
    issued_by: str
    reason: str | None
    created_at: datetime
    completed_at: datetime | None
    artifacts: dict[str, Any] = Field(description="Files, tables and items by number, and the first of each by name")


class UnpublishingPage(ApiModel):
    unpublishings: list[UnpublishingView] = Field(description="Newest first")
    next_cursor: str | None


class AssetView(AssetSummary):
    current: RevisionView | None = Field(description="The current revision")
    latest_version: str | None = Field(
        default=None, description="The version that is served: the newest approved one, where approval is asked for"
    )
    versions: list[VersionView] = Field(
        default_factory=list, description="Revisions with a version label, newest first; the newest hundred"
    )
    unpublishings: list[UnpublishingView] = Field(
        default_factory=list, description="The newest ten revisions that were unpublished, without previews"
    )


class BlobView(ApiModel):
    blob_id: str
    zone: Zone
    container: str
    path: str
    size_bytes: int
    sha256: str
    role: str = Field(description="`data` is the content of the revision")
    media_type: str | None
    state: BlobState
    job_id: str | None
    node_id: str | None
    created_at: datetime


class BlobPage(ApiModel):
    blobs: list[BlobView]
    next_cursor: str | None


class LineageSource(ApiModel):
    """A revision of an asset, or an URL outside."""

    role: str
    source_asset_id: str | None
    source_revision: int | None
    source_url: str | None
    created_at: datetime


class Descendant(ApiModel):
    role: str
    asset_id: str
    revision: int
    created_at: datetime


class Lineage(ApiModel):
    asset_id: str
    revision: int
    sources: list[LineageSource] = Field(description="What it was made from; the first 1,000")
    descendants: list[Descendant] = Field(description="What was made from it; the first 1,000")


class UnpublishRequest(RequestBody):
    revision: RevisionNumber | None = Field(default=None, description="Without it: all revisions of the asset")
    dry_run: bool = Field(default=True, strict=True, description="Only tell what would be deleted")
    force: bool = Field(default=False, strict=True, description="Also approved content, which is revoked by it")
    reason: ReasonText | None = None


class UnpublishedFile(ApiModel):
    zone: Zone
    container: str
    path: str
    size_bytes: int
    revision: int
    shared_with: str | None = Field(description="Another owner of this file, because of which it stays")


class UnpublishedItem(ApiModel):
    collection_id: str
    item_id: str
    revision: int
    shown: bool = Field(description="Whether the catalogue shows it now")


class PromotedPlace(ApiModel):
    target: str
    url: str
    revision: int


class UnpublishAnswer(ApiModel):
    """What would be, or is, unpublished. Counts are of everything; lists end at 10,000 entries."""

    asset_id: str
    dry_run: bool
    status: Literal["dry_run", "pending", "completed", "nothing_left"] = Field(
        description="`pending`: the files are deleted within seconds; `nothing_left`: it was unpublished before"
    )
    revisions: list[int]
    approved_revisions: list[int] = Field(
        description="Of these, the approved ones: to unpublish them takes `force`, which revokes the approval"
    )
    unpublishing_ids: list[str] = Field(description="Of a preview: none")
    file_count: int
    shared_file_count: int
    size_bytes: int = Field(description="Of the files that are deleted")
    item_count: int
    files: list[UnpublishedFile]
    items: list[UnpublishedItem]
    tables: list[str] = Field(description="Tables in the data database that are dropped")
    promoted: list[PromotedPlace] = Field(description="Places outside that have a copy")
    notices: list[str] = Field(description="What external services are told")


class RollbackRequest(RequestBody):
    revision: RevisionNumber = Field(description="A completed one, which is not the current one")
