"""Creates a STAC item from an open raster: its content depends only on the file and the caller's metadata.

No clock: the same file and the same metadata give the same item.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from rasterio.io import DatasetReader

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.raster.georeferencing import bounds_of
from rmhdag.handlers.stac.bands import describe_bands, name_bands
from rmhdag.handlers.stac.footprint import find_footprint
from rmhdag.handlers.stac.validation import FILE, PROJECTION, RASTER, STAC_VERSION, find_faults
from rmhdag.models.blobs import BlobRef
from rmhdag.models.columns import LargeJsonObject

TIFF_MEDIA_TYPE = "image/tiff; application=geotiff"
COG_MEDIA_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
SHA256_MULTIHASH = "1220"
_TIME_TAGS = (("ACQUISITIONDATETIME", "IMAGERY"), ("TIFFTAG_DATETIME", None), ("DATETIME", None), ("datetime", None))


class ItemWords(BaseModel):
    """Metadata of an item that is not in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    item_datetime: AwareDatetime | None = Field(None, alias="datetime")
    start_datetime: AwareDatetime | None = None
    end_datetime: AwareDatetime | None = None
    properties: LargeJsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_times(self) -> ItemWords:
        if (self.start_datetime is None) != (self.end_datetime is None):
            raise ValueError("start_datetime and end_datetime belong together: give both")
        if self.start_datetime and self.end_datetime and self.start_datetime > self.end_datetime:
            raise ValueError("start_datetime is after end_datetime: exchange them")
        return self


class StoredFile(NamedTuple):
    """A file of the item and its address for readers."""

    blob: BlobRef
    href: str


def build_item(
    dataset: DatasetReader,
    *,
    item_id: str,
    collection_id: str,
    data: StoredFile,
    words: ItemWords,
    file_time: datetime,
    is_cog: bool = True,
) -> dict[str, Any]:
    """A valid item with the asset `data`. `file_time` is the date of an item that neither words nor tags date."""
    footprint = find_footprint(dataset)
    asset = {
        "href": data.href,
        "type": COG_MEDIA_TYPE if is_cog else TIFF_MEDIA_TYPE,
        "title": "Data (cloud-optimized GeoTIFF)" if is_cog else "Data (GeoTIFF)",
        "roles": ["data"],
        "bands": name_bands(dataset),
        "raster:bands": describe_bands(dataset),
        **file_fields(data.blob),
    }
    return {
        "type": "Feature",
        "stac_version": STAC_VERSION,
        "stac_extensions": [FILE, PROJECTION, RASTER],
        "id": item_id,
        "collection": collection_id,
        "geometry": footprint.geometry,
        "bbox": footprint.bbox,
        "properties": {**words.properties, **_times(dataset, words, file_time), **_projection(dataset)},
        "links": [{"rel": "collection", "href": "../collection.json", "type": "application/json"}],
        "assets": {"data": asset},
    }


def check_item(item: Mapping[str, Any]) -> None:
    """Refuse an item that is not valid, naming every place."""
    faults = find_faults(dict(item))
    if faults:
        raise NonRetryableError(
            f"the STAC item {item.get('id')!r} is not valid: {'; '.join(faults)}", code="VALIDATION_ERROR"
        )


def picture_asset(thumbnail: StoredFile) -> dict[str, Any]:
    return {
        "href": thumbnail.href,
        "type": thumbnail.blob.media_type,
        "title": "Thumbnail",
        "roles": ["thumbnail"],
        **file_fields(thumbnail.blob),
    }


def footprint_asset(footprint: StoredFile) -> dict[str, Any]:
    return {
        "href": footprint.href,
        "type": footprint.blob.media_type,
        "title": "Footprint of the valid data",
        "roles": ["metadata"],
        **file_fields(footprint.blob),
    }


def file_fields(blob: BlobRef) -> dict[str, Any]:
    return {"file:size": blob.size_bytes, "file:checksum": SHA256_MULTIHASH + blob.sha256}


def written_time(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def _times(dataset: DatasetReader, words: ItemWords, file_time: datetime) -> dict[str, Any]:
    moment, source = words.item_datetime, "given"
    if moment is None and words.start_datetime and words.end_datetime:
        interval = {"start_datetime": words.start_datetime, "end_datetime": words.end_datetime}
        return {"datetime": None, **{key: written_time(value) for key, value in interval.items()}}
    if moment is None:
        moment, source = _tagged_time(dataset), "tags"
    if moment is None:
        moment, source = file_time, "file"
    times = {"datetime": written_time(moment), "rmhdag:datetime_source": source}
    if words.start_datetime and words.end_datetime:
        times |= {
            "start_datetime": written_time(words.start_datetime),
            "end_datetime": written_time(words.end_datetime),
        }
    return times


def _tagged_time(dataset: DatasetReader) -> datetime | None:
    """The date in the file's tags; a tag that is not a date is ignored."""
    for name, domain in _TIME_TAGS:
        text = dataset.tags(ns=domain).get(name) if domain else dataset.tags().get(name)
        if text:
            moment = _read_time(text.strip())
            if moment is not None:
                return moment
    return None


def _read_time(text: str) -> datetime | None:
    # TIFF writes 2024:05:06 07:08:09; without a zone it is taken as UTC.
    if len(text) >= 10 and text[4] == text[7] == ":":
        text = text[:10].replace(":", "-") + text[10:]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _projection(dataset: DatasetReader) -> dict[str, Any]:
    authority = dataset.crs.to_authority()
    # With the code too: a browser that draws the file has no table of codes.
    code = {
        "proj:code": ":".join(authority) if authority else None,
        "proj:wkt2": dataset.crs.to_wkt(version="WKT2_2019"),
    }
    numbers = {
        "proj:shape": [dataset.height, dataset.width],
        "proj:transform": list(dataset.transform)[:6],
        "proj:bbox": list(bounds_of(dataset)),
    }
    if not all(math.isfinite(value) for values in numbers.values() for value in values):
        raise NonRetryableError(
            "the raster's place is not a number (NaN or infinity in its geotransform)", code="GEOTRANSFORM_MISSING"
        )
    return {**code, **numbers}
