"""Changes of the business domain that a handler asks for, as data.

The orchestrator applies them in the transaction that completes the node, so that succeeded means published.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from rmhdag.models.columns import Id, LargeJsonObject, Message, Name, Number, Url, varchar
from rmhdag.models.limits import MOST_RECORDS, RECORDS_BYTES

ContentHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
AssetId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Revision = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
BlobPath = Annotated[str, varchar(1024, min_length=1)]


class Zone(StrEnum):
    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class StacItemRecord(Record):
    """A STAC item to be inserted or replaced in its collection."""

    type: Literal["stac_item"] = "stac_item"
    collection_id: Name
    item: LargeJsonObject

    @model_validator(mode="after")
    def _check_identity(self) -> StacItemRecord:
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
    def _check_identity(self) -> StacCollectionRecord:
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
    def _check_source(self) -> LineageRecord:
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
    """Somebody is to decide about a revision, bound to its content."""

    type: Literal["approval_request"] = "approval_request"
    asset_id: AssetId
    revision: Revision
    content_hash: ContentHash
    requested_by: Id
    message: Message | None = None


AnyRecord = Annotated[
    BlobRecord | StacItemRecord | StacCollectionRecord | LineageRecord | PromotionRecord | ApprovalRequestRecord,
    Field(discriminator="type"),
]

Records = Annotated[tuple[AnyRecord, ...], Field(max_length=MOST_RECORDS)]
_RECORDS: TypeAdapter[Records] = TypeAdapter(Records)


class RecordsTooLargeError(ValueError):
    """More than one result may publish."""


def encode_records(records: Records) -> bytes:
    """JSON text, as it travels from the handler to whoever applies the records."""
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
    found = value.get(key)
    if not isinstance(found, str) or not found:
        raise ValueError(f"{where}/{key} is missing or not text: STAC needs it")
