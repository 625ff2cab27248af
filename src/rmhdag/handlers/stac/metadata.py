"""`raster.extract_stac_metadata`: a COG in storage becomes a STAC item, with a thumbnail and a footprint beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from rasterio.io import DatasetReader

from rmhdag.catalogue.extents import is_undated
from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.findings import Finding, warn
from rmhdag.handlers.raster.opening import open_raster, reading
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import NamedBlob
from rmhdag.handlers.stac.items import (
    ItemWords,
    StoredFile,
    build_item,
    check_item,
    footprint_asset,
    picture_asset,
)
from rmhdag.handlers.stac.thumbnail import MEDIA_TYPE, draw_thumbnail
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.handler_result import DataWarning, HandlerResult
from rmhdag.models.id_types import StacId
from rmhdag.models.records import Zone
from rmhdag.storage import BlobNotFound, Storage

FOOTPRINT_SUFFIX = ".footprint.geojson"
HASH_LENGTH = 16

_MOMENT: TypeAdapter[datetime] = TypeAdapter(AwareDatetime)


class Described(NamedTuple):
    """An item and the files beside it."""

    item: dict[str, Any]
    thumbnail: BlobRef
    footprint: BlobRef

    def output(self) -> dict[str, Any]:
        return {
            "item": self.item,
            "thumbnail": self.thumbnail.model_dump(mode="json"),
            "footprint": self.item["geometry"],
            "footprint_file": self.footprint.model_dump(mode="json"),
        }


class ExtractParams(ItemWords):
    cog: BlobRef
    collection_id: StacId
    item_id: StacId
    source: BlobRef | NamedBlob | None = Field(
        None, description="What the COG was made from: its time may date the item"
    )
    file_time: AwareDatetime | None = Field(None, description="The date of an item that nothing else dates")


@handler("raster.extract_stac_metadata", aliases=["raster_extract_stac_metadata"])
def extract_stac_metadata(ctx: HandlerContext[ExtractParams]) -> HandlerResult:
    """Describes a COG as a STAC item, and puts a thumbnail and a footprint beside the COG."""
    params = ctx.params
    file_time = params.file_time or time_of_file(ctx.storage, params.source or params.cog)
    described = describe_cog(
        ctx.storage,
        params.cog,
        collection_id=params.collection_id,
        item_id=params.item_id,
        words=words_in(params),
        file_time=file_time,
    )
    return HandlerResult(output=described.output(), warnings=date_warnings([described.item]))


def date_warnings(items: Iterable[Mapping[str, Any]]) -> tuple[DataWarning, ...]:
    """Warn that the file's own time is when it was stored, not when it was taken."""
    undated = sum(is_undated(item) for item in items)
    if not undated:
        return ()
    text = (
        "neither the order nor the file says when the data was acquired: the item has the time at which the file was "
        "stored, and the collection's extent leaves it out; pass `datetime`, or `start_datetime` and `end_datetime`"
    )
    return (warn(Finding.DATETIME_ASSUMED, text, undated),)


def words_in(params: ItemWords) -> ItemWords:
    """Only the metadata from people."""
    return ItemWords.model_validate({name: getattr(params, name) for name in ItemWords.model_fields})


def time_of_file(storage: Storage, file: BlobRef | NamedBlob) -> datetime:
    """When the file was stored: constant as long as the file is, so that another attempt creates the same item."""
    address = BlobAddress(file.zone, file.container, file.path)
    try:
        return storage.info(address).modified_at
    except BlobNotFound:
        raise NonRetryableError(
            f"there is no file {address} to take the date from: give `datetime`, or the file's present name",
            code="FILE_NOT_FOUND",
        ) from None


def describe_cog(
    storage: Storage,
    cog: BlobRef,
    *,
    collection_id: str,
    item_id: str,
    words: ItemWords,
    file_time: datetime,
) -> Described:
    """The item of a COG; its thumbnail and footprint are written, under names made from their content."""
    with open_raster(storage, cog) as dataset, reading(dataset.name, cog.address):
        return describe_dataset(
            storage,
            dataset,
            cog,
            collection_id=collection_id,
            item_id=item_id,
            words=words,
            file_time=file_time,
        )


def describe_dataset(
    storage: Storage,
    dataset: DatasetReader,
    cog: BlobRef,
    *,
    collection_id: str,
    item_id: str,
    words: ItemWords,
    file_time: datetime,
    is_cog: bool = True,
) -> Described:
    data = StoredFile(cog, storage.url(cog.address))
    item = build_item(
        dataset,
        item_id=item_id,
        collection_id=collection_id,
        data=data,
        words=words,
        file_time=file_time,
        is_cog=is_cog,
    )
    thumbnail = keep_bytes(storage, cog, item_id, ".webp", draw_thumbnail(dataset), MEDIA_TYPE)
    # Includes the metadata, so that a lost item can be recreated from the remaining files.
    footprint_feature = {
        "type": "Feature",
        "id": item_id,
        "collection": collection_id,
        "bbox": item["bbox"],
        "geometry": item["geometry"],
        "properties": {**words.properties, **_times_in(item)},
        "data": {"path": cog.path, "sha256": cog.sha256},
    }
    footprint = keep_bytes(
        storage,
        cog,
        item_id,
        FOOTPRINT_SUFFIX,
        orjson.dumps(footprint_feature, option=orjson.OPT_SORT_KEYS),
        "application/geo+json",
    )
    item["assets"]["thumbnail"] = picture_asset(StoredFile(thumbnail, storage.url(thumbnail.address)))
    item["assets"]["footprint"] = footprint_asset(StoredFile(footprint, storage.url(footprint.address)))
    check_item(item)
    return Described(item, thumbnail, footprint)


def keep_bytes(storage: Storage, cog: BlobRef, item_id: str, suffix: str, data: bytes, media_type: str) -> BlobRef:
    """Next to the COG; nothing is written next to an uploaded file: that goes to silver."""
    digest = sha256(data).hexdigest()
    zone = Zone.SILVER if cog.zone is Zone.BRONZE else cog.zone
    address = BlobAddress(zone, cog.container, f"{item_id}/{item_id}-{digest[:HASH_LENGTH]}{suffix}")
    if storage.exists(address) and storage.sha256(address) == digest:
        return BlobRef(
            zone=address.zone,
            container=address.container,
            path=address.path,
            size_bytes=len(data),
            sha256=digest,
            media_type=media_type,
        )
    return storage.write(address, data, media_type=media_type)


class DescribedFile(BaseModel):
    """The file that a footprint describes."""

    path: str
    sha256: str


class FootprintFile(BaseModel):
    """The part of a footprint that describes its item."""

    model_config = ConfigDict(extra="ignore")

    id: StacId
    collection: StacId
    properties: dict[str, Any]
    data: DescribedFile | None = Field(None, description="Not in those of earlier versions")

    @property
    def file_time(self) -> datetime | None:
        """The item's date, whatever its source: the file may no longer exist."""
        try:
            return _MOMENT.validate_python(self.properties.get("datetime"))
        except ValidationError:
            return None

    def words(self) -> ItemWords:
        times = {key: self.properties.get(key) for key in ("datetime", "start_datetime", "end_datetime")}
        if self.properties.get("rmhdag:datetime_source") != "given" and times["start_datetime"] is None:
            times["datetime"] = None
        others = {
            key: value for key, value in self.properties.items() if key not in times and not key.startswith("rmhdag:")
        }
        return ItemWords.model_validate({**times, "properties": others})


def _times_in(item: dict[str, Any]) -> dict[str, Any]:
    names = ("datetime", "start_datetime", "end_datetime", "rmhdag:datetime_source")
    return {key: item["properties"][key] for key in names if key in item["properties"]}
