"""What the platform produces, and for whom: assets, their revisions, the requests for them, their files and origins.

A revision counts operational reprocessing and is never overwritten. Only the orchestrator writes `processing_status`,
`content_hash` and the job of a revision; see docs/architecture/assets.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Attempt,
    Count,
    Flag,
    Id,
    IdempotencyKey,
    InputJsonObject,
    JsonObject,
    JsonValue,
    Label,
    LargeJsonList,
    LargeJsonObject,
    Message,
    Name,
    Namespace,
    NodeName,
    Number,
    Sha256,
    Stamped,
    Timestamp,
    Url,
    varchar,
)
from rmhdag.models.records import BlobPath, Zone
from rmhdag.models.table import Check, Index, Row, Table, one_of

AssetKey = Annotated[str, varchar(32, min_length=32)]


class AssetKind(StrEnum):
    RASTER = "raster"
    VECTOR = "vector"
    DATASET = "dataset"


class ProcessingStatus(StrEnum):
    """Of a revision; an asset has that of its newest one. A superseded revision was cancelled for the next one."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


OPEN_STATUSES = frozenset({ProcessingStatus.PENDING, ProcessingStatus.PROCESSING})


class ApprovalState(StrEnum):
    NONE = "none"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Classification(StrEnum):
    PUBLIC = "public"
    RESTRICTED = "restricted"


class BlobState(StrEnum):
    PRESENT = "present"
    DELETED = "deleted"


class ServiceKind(StrEnum):
    DDH = "ddh"
    ADF = "adf"
    WEBHOOK = "webhook"


class GeospatialAsset(Row):
    """`latest_revision` was made last, `current_revision` is the newest that is completed: what users see."""

    table: ClassVar[Table] = Table(
        name="dag_geospatial_assets",
        key=("namespace", "asset_id"),
        indexes=(
            Index("list", ("namespace", "created_at", "asset_id")),
            Index("platform", ("namespace", "platform_id", "created_at", "asset_id")),
            Index(
                "unsettled", ("namespace", "processing_status", "created_at"), where="processing_status <> 'completed'"
            ),
        ),
        checks=(
            Check("revisions_ordered", "latest_revision >= 1 AND current_revision BETWEEN 1 AND latest_revision"),
            Check("content_of_revision", "content_hash IS NULL OR current_revision IS NOT NULL"),
        ),
        storage={"fillfactor": "80"},
    )

    namespace: Namespace = "default"
    asset_id: AssetKey
    platform_id: Name
    kind: AssetKind
    processing_status: ProcessingStatus = ProcessingStatus.PENDING
    latest_revision: Attempt = 1
    current_revision: Attempt | None = None
    current_job_id: Id | None = None
    content_hash: Sha256 | None = None
    approval_state: ApprovalState = ApprovalState.NONE
    classification: Classification = Classification.RESTRICTED
    created_by: Name
    created_at: Stamped
    updated_at: Stamped
    deleted_at: Timestamp | None = None
    deleted_by: Name | None = None
    platform_refs: JsonObject


class AssetRevision(Row):
    """One processing of an asset. `params_digest` is of what its job was asked for; a rollback has no job.

    Its items are rows of `dag_revision_items`. Those of revisions made before that table existed are in `catalogue`, as
    `stac_item` records; nothing writes that column any more.
    """

    table: ClassVar[Table] = Table(
        name="dag_asset_revisions",
        key=("namespace", "asset_id", "revision"),
        indexes=(Index("job", ("job_id",), where="job_id IS NOT NULL"),),
        checks=(
            Check("revision_positive", "revision >= 1"),
            Check("settled_has_end", f"({one_of('status', OPEN_STATUSES)}) = (completed_at IS NULL)"),
        ),
        storage={"fillfactor": "80"},
    )

    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    job_id: Id | None = None
    status: ProcessingStatus = ProcessingStatus.PENDING
    content_hash: Sha256 | None = None
    params_digest: Sha256 | None = None
    source: Label = "processed"
    created_by: Name
    created_at: Stamped
    updated_at: Stamped
    completed_at: Timestamp | None = None
    error_message: Message | None = None
    outputs: LargeJsonObject = Field(default_factory=dict)
    footprint: JsonValue | None = None
    # Of a completed revision whose job was deleted: workflow, version, parameters, who and when.
    made_by: LargeJsonObject = Field(default_factory=dict)
    catalogue: LargeJsonList = Field(default_factory=list)
    # Those of its job, which does not live as long.
    error: JsonObject | None = None
    warnings: LargeJsonList | None = None


class ApiRequest(Row):
    """A work order. Several may share a job, if they `joined` it; the job of a request is its newest one.

    `digest` is of all that was asked for: whoever repeats a request must ask for the same again.
    """

    table: ClassVar[Table] = Table(
        name="dag_api_requests",
        key=("namespace", "request_id"),
        indexes=(
            Index("list", ("namespace", "created_at", "request_id")),
            Index("asset", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            Index("joined", ("created_at",), where="joined"),
            Index(
                "idempotency",
                ("namespace", "submitted_by", "idempotency_key"),
                unique=True,
                where="idempotency_key IS NOT NULL",
            ),
        ),
        checks=(Check("revision_of_asset", "(revision IS NULL) = (asset_id IS NULL)"),),
    )

    namespace: Namespace = "default"
    request_id: Id
    client_id: Name
    platform_id: Name | None = None
    workflow_id: Name
    asset_id: AssetKey | None = None
    revision: Attempt | None = None
    job_id: Id | None = None
    joined: Flag = False
    submitted_by: Name
    idempotency_key: IdempotencyKey | None = None
    callback_url: Url | None = None
    digest: Sha256
    created_at: Stamped
    updated_at: Stamped
    payload: InputJsonObject = Field(default_factory=dict)


class BlobAsset(Row):
    """A file of a revision, or of a job without an asset. `blob_id` is `rmhdag.models.ids.blob_id_of`."""

    table: ClassVar[Table] = Table(
        name="dag_blob_assets",
        key=("blob_id",),
        indexes=(
            Index("revision", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            Index("content", ("namespace", "sha256")),
        ),
        checks=(
            Check("revision_of_asset", "(revision IS NULL) = (asset_id IS NULL)"),
            Check("deleted_has_end", "(state = 'deleted') = (deleted_at IS NOT NULL)"),
        ),
    )

    blob_id: Id
    namespace: Namespace = "default"
    zone: Zone
    container: Name
    path: BlobPath
    size_bytes: Number
    sha256: Sha256
    role: Name
    media_type: Name | None = None
    asset_id: AssetKey | None = None
    revision: Attempt | None = None
    job_id: Id | None = None
    node_id: NodeName | None = None
    state: BlobState = BlobState.PRESENT
    created_at: Stamped
    deleted_at: Timestamp | None = None


class DatasetRef(Row):
    """Lineage: a revision (or a job without an asset) was made from another revision, or from a source outside."""

    table: ClassVar[Table] = Table(
        name="dag_dataset_refs",
        key=("ref_id",),
        indexes=(
            Index("revision", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("source", ("namespace", "source_asset_id", "source_revision"), where="source_asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
        ),
        checks=(
            Check("revision_of_asset", "(revision IS NULL) = (asset_id IS NULL)"),
            Check("one_source", "(source_asset_id IS NULL) <> (source_url IS NULL)"),
            Check("source_whole", "(source_asset_id IS NULL) = (source_revision IS NULL)"),
        ),
    )

    ref_id: Id
    namespace: Namespace = "default"
    asset_id: AssetKey | None = None
    revision: Attempt | None = None
    job_id: Id | None = None
    node_id: NodeName | None = None
    role: Name = "source"
    source_asset_id: AssetKey | None = None
    source_revision: Attempt | None = None
    source_url: Url | None = None
    created_at: Stamped


class Approval(Row):
    """Somebody is to decide, or has decided, about one content of one revision."""

    table: ClassVar[Table] = Table(
        name="dag_approvals",
        key=("approval_id",),
        indexes=(
            Index("list", ("namespace", "approval_id")),
            Index("revision", ("namespace", "asset_id", "revision")),
            Index("open", ("namespace", "requested_at"), where="state = 'pending'"),
        ),
        checks=(Check("decided_has_end", "(state IN ('approved', 'rejected')) = (decided_at IS NOT NULL)"),),
    )

    approval_id: Id
    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    content_hash: Sha256
    state: ApprovalState = ApprovalState.PENDING
    requested_by: Name
    requested_at: Stamped
    decided_by: Name | None = None
    decided_at: Timestamp | None = None
    message: Message | None = None
    reason: Message | None = None


class ExternalService(Row):
    """A service outside that is told of approvals; its secret is named, never kept here."""

    table: ClassVar[Table] = Table(
        name="dag_external_services",
        key=("service_id",),
        indexes=(Index("list", ("namespace", "service_id")),),
        checks=(Check("failures_not_negative", "failures >= 0"),),
    )

    service_id: Id
    namespace: Namespace = "default"
    kind: ServiceKind
    url: Url
    secret_ref: Label | None = None
    enabled: Flag = True
    failures: Count = 0
    created_at: Stamped
    updated_at: Stamped


class PromotedDataset(Row):
    """A revision that is available at a target outside."""

    table: ClassVar[Table] = Table(name="dag_promoted", key=("namespace", "asset_id", "revision", "target"))

    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    target: Name
    url: Url
    promoted_at: Stamped
