"""vector.create_stac: a STAC item for prepared vector data, with its GeoParquet files as assets."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.handlers.vector.geoparquet import MEDIA_TYPE
from rmhdag.handlers.vector.manifest import Bounds, Manifest, default_item_id, read_manifest
from rmhdag.models.blobs import BlobRef
from rmhdag.models.columns import LargeJsonObject
from rmhdag.models.handler_result import DataWarning, HandlerResult
from rmhdag.models.id_types import StacId
from rmhdag.models.records import StacCollectionRecord, StacItemRecord

MOST_ASSETS = 100
LAST_OF_DAY = time(23, 59, 59)
ITEM_ASSETS = {"data": {"title": "Features", "type": MEDIA_TYPE, "roles": ["data"]}}


class CreateStacParams(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    manifest: BlobRef = Field(description="Output of vector.prepare")
    collection_id: StacId
    item_id: StacId | None = Field(None, description="The name of the first table, if not given")
    source: BlobRef | None = Field(None, description="The file that the data comes from; dates the item")
    license: Annotated[str, Field(max_length=100)] | None = Field(None, description="`other`, if not given")
    item_datetime: AwareDatetime | None = Field(None, alias="datetime")
    start_datetime: AwareDatetime | None = None
    end_datetime: AwareDatetime | None = None
    temporal_property: str | None = Field(
        None, description="Column with the time of a feature; its span is that of the item, if no time is given"
    )
    properties: LargeJsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if (self.start_datetime is None) != (self.end_datetime is None):
            raise ValueError("start_datetime and end_datetime belong together: give both")
        return self


class CreateStacOutput(BaseModel):
    item_id: str
    collection_id: str
    bbox: Bounds
    geometry_types: list[str]
    row_count: int
    item: dict[str, Any]


@handler("vector.create_stac", aliases=["vector_create_stac"], output=CreateStacOutput)
def create_stac(ctx: HandlerContext[CreateStacParams]) -> HandlerResult:
    """Publishes a STAC item for prepared vector data; its collection is made if there is none."""
    # These bring the raster libraries along, which no other vector handler needs.
    from rmhdag.handlers.stac.collections import CollectionWords, build_collection
    from rmhdag.handlers.stac.items import check_item

    params = ctx.params
    manifest = read_manifest(ctx, params.manifest)
    item, warnings = build_vector_item(ctx, manifest)
    check_item(item)
    words = CollectionWords(
        collection_id=params.collection_id,
        license=params.license or "other",
        description=f"Vector layers of {params.collection_id}",
    )
    collection = {**build_collection(words, [item]), "item_assets": ITEM_ASSETS}
    output = CreateStacOutput(
        item_id=item["id"],
        collection_id=params.collection_id,
        bbox=item["bbox"],
        geometry_types=sorted({table.geometry_type for table in manifest.tables}),
        row_count=manifest.row_count,
        item=item,
    )
    records = (
        StacCollectionRecord(collection=collection),
        StacItemRecord(collection_id=params.collection_id, item=item),
    )
    return HandlerResult(output=output.model_dump(mode="json"), warnings=warnings, records=records)


def build_vector_item(
    ctx: HandlerContext[CreateStacParams], manifest: Manifest
) -> tuple[dict[str, Any], tuple[DataWarning, ...]]:
    from rmhdag.handlers.stac.validation import STAC_VERSION

    params = ctx.params
    boxes = [table.bbox for table in manifest.tables if table.bbox is not None]
    west, south = (min(box[index] for box in boxes) for index in (0, 1))
    east, north = (max(box[index] for box in boxes) for index in (2, 3))
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    times, warnings = _times(ctx, manifest)
    tables = [
        {"name": table.table_name, "geometry_type": table.geometry_type, "row_count": table.row_count}
        for table in manifest.tables
    ]
    files = [part.file for part in manifest.parts[:MOST_ASSETS]]
    names = ["data"] if len(files) == 1 else [f"data-{number:05}" for number in range(len(files))]
    assets = {
        name: {"href": ctx.storage.url(file.address), "type": MEDIA_TYPE, "title": "Features", "roles": ["data"]}
        for name, file in zip(names, files, strict=True)
    }
    item = {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [],
        "id": params.item_id or default_item_id(manifest),
        "collection": params.collection_id,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": [west, south, east, north],
        "properties": {
            **params.properties,
            **times,
            "vector:tables": tables,
            "vector:row_count": manifest.row_count,
            "vector:geometry_types": sorted({table.geometry_type for table in manifest.tables}),
        },
        "links": [{"rel": "collection", "href": "../collection.json", "type": "application/json"}],
        "assets": assets,
    }
    return item, warnings


def _times(ctx: HandlerContext[CreateStacParams], manifest: Manifest) -> tuple[dict[str, Any], tuple[DataWarning, ...]]:
    params = ctx.params
    if params.start_datetime is not None and params.end_datetime is not None:
        moment = None if params.item_datetime is None else params.item_datetime.isoformat()
        span = {"start_datetime": params.start_datetime.isoformat(), "end_datetime": params.end_datetime.isoformat()}
        return {"datetime": moment, **span}, ()
    if params.item_datetime is not None:
        return {"datetime": params.item_datetime.isoformat()}, ()
    reason = "the data names no date"
    if params.temporal_property is not None:
        first_and_last = _span(manifest, params.temporal_property)
        if first_and_last is not None:
            first, last = (moment.isoformat() for moment in first_and_last)
            return {"datetime": None, "start_datetime": first, "end_datetime": last}, ()
        reason = f"column {params.temporal_property!r} has no values"
    file = params.source or params.manifest
    moment = ctx.storage.info(file.address).modified_at.astimezone(UTC).isoformat()
    message = f"{reason}; the time at which its file was stored is used"
    return {"datetime": moment}, (DataWarning(code="DATETIME_ASSUMED", message=message),)


def _span(manifest: Manifest, name: str) -> tuple[datetime, datetime] | None:
    """Of all tables. A date lasts until the end of its day."""
    firsts, lasts = [], []
    for table in manifest.tables:
        column = table.time_column(name)
        span = None if column is None else table.spans.get(column.name)
        if column is None or span is None:
            continue
        is_date = column.type == "date"
        firsts.append(_moment(span.first, time.min if is_date else None))
        lasts.append(_moment(span.last, LAST_OF_DAY if is_date else None))
    return (min(firsts), max(lasts)) if firsts else None


def _moment(text: str, clock: time | None) -> datetime:
    if clock is not None:
        return datetime.combine(date.fromisoformat(text), clock, UTC)
    return datetime.fromisoformat(text).astimezone(UTC)
