"""What the platform produces, and for whom: assets, their revisions, the requests for them, their files and origins.

A revision counts operational reprocessing and is never overwritten. Only the orchestrator writes `processing_status`,
`content_hash` and the job of a revision; see docs/architecture/assets.md.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Attempt,
    Flag,
    Id,
    IdempotencyKey,
    InputJsonObject,
    JsonList,
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
    SmallJsonObject,
    Stamped,
    Timestamp,
    Url,
    varchar,
)
from rmhdag.models.records import BlobPath, Zone
from rmhdag.models.table import Check, Index, Row, Table, one_of

AssetKey = Annotated[str, varchar(32, min_length=32)]
# As long as any reference: an order is never refused for its version.
VersionLabel = Annotated[str, varchar(512, min_length=1)]


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
    """Of a revision under review; `none` if its content needs no approval. `models.reviews` has the transitions."""

    NONE = "none"
    PENDING_REVIEW = "pending_review"
    APPROVED = "approved"
    REJECTED = "rejected"
    REVOKED = "revoked"
    SUPERSEDED = "superseded"


class Classification(StrEnum):
    """The clearance of content: who may see it. Decided at approval."""

    UNDECIDED = "undecided"
    PUBLIC = "public"
    RESTRICTED = "restricted"


class PlatformReview(StrEnum):
    """Whether a platform's assets need an approval. `four_eyes`: by someone other than the submitter."""

    NONE = "none"
    REQUIRED = "required"
    FOUR_EYES = "four_eyes"


class BlobState(StrEnum):
    PRESENT = "present"
    DELETED = "deleted"


class GeospatialAsset(Row):
    """`latest_revision` was made last; `current_revision` is the newest that may be served: what users see.

    `approval_state` and `classification` are those of the newest revision that is under review or has been; they are a
    cache, written in the transaction that changes that revision.
    """

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
    classification: Classification = Classification.UNDECIDED
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
    # What the platform calls this version; opaque, never parsed.
    version_label: VersionLabel | None = None
    review_state: ApprovalState = ApprovalState.NONE
    clearance: Classification = Classification.UNDECIDED
    # Of the newest decision. Decisions before it are in `dag_approvals` and `dag_audit`.
    decided_by: Name | None = None
    decided_at: Timestamp | None = None
    decision_reason: Message | None = None
    # Since then it is never served again, whatever its status and review: its files are deleted.
    unpublished_at: Timestamp | None = None


class PlatformRow(Row):
    """A platform that orders assets: which references identify an asset, and whether its content is reviewed.

    A namespace without a row of its own uses that of `default`.
    """

    table: ClassVar[Table] = Table(name="dag_platforms", key=("namespace", "platform_id"))

    namespace: Namespace = "default"
    platform_id: Name
    identity_refs: JsonList
    optional_refs: JsonList = Field(default_factory=list)
    # The reference that is the version label. It is no part of an asset's identity.
    version_ref: Name | None = None
    review: PlatformReview = PlatformReview.NONE
    active: Flag = True
    created_by: Name
    # None: as the settings say, which may still change it.
    updated_by: Name | None = None
    created_at: Stamped
    updated_at: Stamped


class ApiRequest(Row):
    """A work order. Several may share a job, if they `joined` it; the job of a request is its newest one.

    `digest` is that of the whole request: a repeated request must have the same content.

    A client of the gateway chooses ids among its own orders only: what it calls an order is `client_request_id`, and
    `request_id` is the platform's. Of all other orders both are the same.
    """

    table: ClassVar[Table] = Table(
        name="dag_api_requests",
        key=("namespace", "request_id"),
        indexes=(
            Index("list", ("namespace", "created_at", "request_id")),
            Index("client", ("namespace", "client_id", "created_at", "request_id")),
            Index("asset", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            # Found by all three, so that looking for an order never reads a row of another client.
            Index("own_id", ("namespace", "COALESCE(client_request_id, request_id)", "client_id"), unique=True),
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
    client_request_id: Id | None = None
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
    # Of an order over OGC API – Processes: addresses by the outcome that each is told, `success` always among them.
    subscriber: SmallJsonObject | None = None
    payload: InputJsonObject = Field(default_factory=dict)
    # As the order gave them; those of its job may be changed later, and its client does not see that.
    labels: JsonObject = Field(default_factory=dict)


class BlobAsset(Row):
    """A file of a revision, or of a job without an asset. `blob_id` is `rmhdag.models.ids.blob_id_of`."""

    table: ClassVar[Table] = Table(
        name="dag_blob_assets",
        key=("blob_id",),
        indexes=(
            Index("revision", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            Index("content", ("namespace", "sha256")),
            # Who else has the file at a place. Paths may be too long for a B-tree.
            Index("path", ("path",), method="hash"),
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
    """A pending or finished decision about one content of one revision. Rows are never decided twice."""

    table: ClassVar[Table] = Table(
        name="dag_approvals",
        key=("approval_id",),
        indexes=(
            Index("list", ("namespace", "approval_id")),
            Index("revision", ("namespace", "asset_id", "revision")),
            Index("open", ("namespace", "requested_at"), where="decided_at IS NULL"),
        ),
        checks=(Check("decided_has_end", "(state NOT IN ('none', 'pending_review')) = (decided_at IS NOT NULL)"),),
    )

    approval_id: Id
    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    content_hash: Sha256
    state: ApprovalState = ApprovalState.PENDING_REVIEW
    requested_by: Name
    requested_at: Stamped
    decided_by: Name | None = None
    decided_at: Timestamp | None = None
    message: Message | None = None
    reason: Message | None = None


class PromotedDataset(Row):
    """A revision that is available at a target outside."""

    table: ClassVar[Table] = Table(name="dag_promoted", key=("namespace", "asset_id", "revision", "target"))

    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    target: Name
    url: Url
    promoted_at: Stamped
