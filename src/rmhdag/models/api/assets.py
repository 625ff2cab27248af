"""Orders of platforms, and assets with their revisions, as they are asked for and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StringConstraints

from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.jobs import RequestBody
from rmhdag.models.assets import ApprovalState, AssetKind, BlobState, Classification, ProcessingStatus
from rmhdag.models.columns import IdempotencyKey, InputJsonObject, Name, Priority, ShownObject, Url, varchar
from rmhdag.models.plain_text import refuse_deceiving
from rmhdag.models.records import Zone

MOST_REFERENCES = 20


def _refuse_number(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError('references are text: write it in quotes, with its leading zeros ("0038272" is not 38272)')
    return value


RequestId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_.-]{1,64}$")]
Reference = Annotated[
    str, varchar(512, min_length=1), BeforeValidator(_refuse_number), AfterValidator(refuse_deceiving)
]
References = Annotated[
    dict[Annotated[Name, AfterValidator(refuse_deceiving)], Reference], Field(max_length=MOST_REFERENCES)
]
RevisionNumber = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]


class WorkOrderBody(RequestBody):
    """What a platform orders. A workflow that makes an asset needs to know whose it is."""

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
    callback_url: Url | None = Field(default=None, description="Told when the job has ended; http or https, and public")
    priority: Priority = Field(default=0, description="10 is most urgent")
    idempotency_key: IdempotencyKey | None = None
    supersede: bool = Field(
        default=False, strict=True, description="Cancel what is processing this asset with other parameters"
    )


class OrderAccepted(BaseModel):
    """`joined`: what was ordered is being processed already, for another request."""

    request_id: str
    workflow_id: str
    submitted_at: datetime
    status: Literal["accepted"] = "accepted"
    job_id: str | None
    asset_id: str | None = Field(description="Null if the workflow makes no asset")
    revision: int | None
    joined: bool


class RequestProgress(BaseModel):
    percent: float = Field(ge=0, le=100)


class RequestView(BaseModel):
    """How an order stands. A cancelled job shows as failed, with the error `cancelled`."""

    request_id: str
    workflow_id: str
    status: Literal["pending", "running", "completed", "failed"]
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


class AssetSummary(BaseModel):
    """`processing_status` is that of the newest revision; `current_revision` is the newest completed one."""

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


class AssetPage(BaseModel):
    assets: list[AssetSummary] = Field(description="Newest first")
    next_cursor: str | None


class RevisionSummary(BaseModel):
    revision: int
    status: ProcessingStatus
    source: str = Field(description="`processed`, or `rollback of n`")
    job_id: str | None = Field(description="Null for a rollback")
    content_hash: str | None
    created_by: str
    created_at: datetime
    completed_at: datetime | None
    error_message: str | None


class RevisionPage(BaseModel):
    revisions: list[RevisionSummary] = Field(description="Newest first")
    next_cursor: str | None


class MadeBy(BaseModel):
    """The job of a revision, as far as the revision's history needs it."""

    workflow_id: str
    workflow_version: int
    workflow_hash: str
    input_params: ShownObject
    submitted_by: str
    rerun_of: str | None
    started_at: datetime | None
    completed_at: datetime | None


class RevisionView(RevisionSummary):
    asset_id: str
    error: ErrorView | None = None
    warnings: list[WarningView] = Field(default_factory=list, description="Of its job, summed by code")
    outputs: dict[str, Any]
    footprint: Any = Field(description="GeoJSON, or null")
    made_by: MadeBy | None = Field(
        default=None, description="What made it; kept when the job is deleted. Null for a rollback"
    )


class AssetView(AssetSummary):
    current: RevisionView | None = Field(description="The current revision")


class BlobView(BaseModel):
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


class BlobPage(BaseModel):
    blobs: list[BlobView]
    next_cursor: str | None


class LineageSource(BaseModel):
    """A revision of an asset, or an URL outside."""

    role: str
    source_asset_id: str | None
    source_revision: int | None
    source_url: str | None
    created_at: datetime


class Descendant(BaseModel):
    role: str
    asset_id: str
    revision: int
    created_at: datetime


class Lineage(BaseModel):
    asset_id: str
    revision: int
    sources: list[LineageSource] = Field(description="What it was made from; the first 1,000")
    descendants: list[Descendant] = Field(description="What was made from it; the first 1,000")


class RollbackRequest(RequestBody):
    revision: RevisionNumber = Field(description="A completed one, which is not the current one")
