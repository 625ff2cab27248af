"""Changes of the business domain that a handler asks for, as data.

The orchestrator applies them in the transaction that completes the node, so that succeeded means published.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, TypeAdapter, model_validator

from rmhdag.models.columns import Id, LargeJsonObject, Message, Name, Number, Url, varchar
from rmhdag.models.id_types import AssetId
from rmhdag.models.limits import MOST_RECORDS, RECORDS_BYTES

ContentHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
BlobPath = Annotated[str, varchar(1024, min_length=1)]
# PostgreSQL cuts longer names.
TableName = Annotated[str, varchar(63), Field(pattern=r"^[a-z_][a-z0-9_]*$")]
# Of one job: layers, each split by kind of geometry, and views.
MOST_TABLES = 1_000


class Zone(StrEnum):
    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class TableRole(StrEnum):
    """Of a table in the data database: the only one, one of several by kind of geometry, or a view of one of them."""

    PRIMARY = "primary"
    GEOMETRY_SPLIT = "geometry_split"
    VIEW = "view"


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class BlobRecord(Record):
    """A file that the task has written. The job's asset and revision are filled in when it is applied."""

    type: Literal["blob"] = "blob"
    zone: Zone
    container: Name
    path: BlobPath
    size_bytes: Number
    sha256: ContentHash
    role: Name
    media_type: Name | None = None


class TableClaimRecord(Record):
    """The names of tables that the job is going to publish: refused now if they belong to somebody else."""

    type: Literal["table_claim"] = "table_claim"
    table_names: Annotated[tuple[TableName, ...], Field(min_length=1, max_length=MOST_TABLES)]
    overwrite: StrictBool = False


class TableRecord(Record):
    """A table that the task has finished in the data database, under its stored name. It gets its public name when the
    job's revision is current; at once, if the job makes none.
    """

    type: Literal["table"] = "table"
    table_name: TableName
    stored_name: TableName
    role: TableRole = TableRole.PRIMARY
    geometry_type: Name
    feature_count: Number
    overwrite: StrictBool = False
    details: LargeJsonObject = Field(default_factory=dict)


class StacItemRecord(Record):
    """A STAC item to be inserted or replaced in its collection."""

    type: Literal["stac_item"] = "stac_item"
    collection_id: Name
    item: LargeJsonObject

    @model_validator(mode="after")
    def _check_identity(self) -> Self:
        _require_text(self.item, "id", "item")
        named = self.item.get("collection", self.collection_id)
        if named != self.collection_id:
            raise ValueError(f"item/collection is {named!r}, collection_id is {self.collection_id!r}: make them equal")
        return self


class StacCollectionRecord(Record):
    """A STAC collection to be inserted or replaced."""

    type: Literal["stac_collection"] = "stac_collection"
    collection: LargeJsonObject

    @model_validator(mode="after")
    def _check_identity(self) -> Self:
        _require_text(self.collection, "id", "collection")
        return self


class LineageRecord(Record):
    """The job's revision was made from a revision of another asset, or from a source outside."""

    type: Literal["lineage"] = "lineage"
    source_asset_id: AssetId | None = None
    source_revision: Revision | None = None
    source_url: Url | None = None
    role: Name = "source"

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.source_asset_id is None) == (self.source_url is None):
            raise ValueError("a lineage record names one source: source_asset_id with source_revision, or source_url")
        if (self.source_asset_id is None) != (self.source_revision is None):
            raise ValueError("source_asset_id and source_revision belong together: give both")
        return self


class PromotionRecord(Record):
    """A revision is now available at an outside target."""

    type: Literal["promotion"] = "promotion"
    asset_id: AssetId
    revision: Revision
    target: Name
    url: Url


class ApprovalRequestRecord(Record):
    """A request to decide about a revision; about the one that the job makes, if it names none.

    With a content hash, it is refused if the revision has another content. Without a requester, it is the
    submitter of the job.
    """

    type: Literal["approval_request"] = "approval_request"
    asset_id: AssetId | None = None
    revision: Revision | None = None
    content_hash: ContentHash | None = None
    requested_by: Id | None = None
    message: Message | None = None

    @model_validator(mode="after")
    def _check_revision(self) -> Self:
        if (self.asset_id is None) != (self.revision is None):
            raise ValueError("asset_id and revision belong together: give both, or none for the job's own revision")
        return self


class ApprovalDecisionRecord(Record):
    """A decision about a revision that waits for its review, on behalf of the job's submitter."""

    type: Literal["approval_decision"] = "approval_decision"
    asset_id: AssetId
    revision: Revision
    content_hash: ContentHash
    decision: Literal["approve", "reject"]
    clearance: Literal["public", "restricted"] | None = None
    reason: Message | None = None

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        if self.decision == "approve" and self.clearance is None:
            raise ValueError("an approval says who may see the content: clearance public or restricted")
        if self.decision == "reject" and not (self.reason or "").strip():
            raise ValueError("a rejection needs a reason: the submitter reads it")
        return self


class ExternalPromotionRecord(Record):
    """External services are to be notified of a public revision: of the served one, if none is named."""

    type: Literal["external_promotion"] = "external_promotion"
    asset_id: AssetId
    revision: Revision | None = None
    service: Name | None = None


class UnpublishRecord(Record):
    """A revision, or a whole asset, is to be taken back. Named by its asset, or by an item or table that it
    has published.
    """

    type: Literal["unpublish"] = "unpublish"
    asset_id: AssetId | None = None
    revision: Revision | None = None
    collection_id: Name | None = None
    item_id: Annotated[str, varchar(255, min_length=1)] | None = None
    table_name: TableName | None = None
    force: StrictBool = False
    dry_run: StrictBool = True
    reason: Message | None = None

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if (self.collection_id is None) != (self.item_id is None):
            raise ValueError("collection_id and item_id belong together: give both")
        if [self.asset_id, self.item_id, self.table_name].count(None) != 2:
            raise ValueError("an unpublish record names one of these: an asset, an item with its collection, a table")
        if self.asset_id is None and self.revision is not None:
            raise ValueError("a revision belongs to asset_id; items and tables have their own")
        return self


AnyRecord = Annotated[
    BlobRecord
    | TableClaimRecord
    | TableRecord
    | StacItemRecord
    | StacCollectionRecord
    | LineageRecord
    | PromotionRecord
    | ApprovalRequestRecord
    | ApprovalDecisionRecord
    | ExternalPromotionRecord
    | UnpublishRecord,
    Field(discriminator="type"),
]

Records = Annotated[tuple[AnyRecord, ...], Field(max_length=MOST_RECORDS)]
_RECORDS: TypeAdapter[Records] = TypeAdapter(Records, config=ConfigDict(defer_build=True))


class RecordsTooLargeError(ValueError):
    """More than one result may publish."""


def encode_records(records: Records) -> bytes:
    """The records as JSON text, as sent from the handler to the orchestrator."""
    text = _RECORDS.dump_json(records, exclude_none=True)
    if len(text) > RECORDS_BYTES:
        raise RecordsTooLargeError(
            f"the records take {len(text)} bytes, more than the {RECORDS_BYTES} that one result may publish: "
            "hand them over from several tasks"
        )
    return text


def decode_records(value: object) -> Records:
    """Records from JSON values; ValidationError if they are none."""
    return _RECORDS.validate_python(value)


def _require_text(value: dict[str, Any], key: str, where: str) -> None:
    text = value.get(key)
    if not isinstance(text, str) or not text:
        raise ValueError(f"{where}/{key} is missing or not text: STAC needs it")
