"""A new STAC collection: its id and description; items extend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rmhdag.catalogue.extents import extent_of_item, united, united_summaries, unknown_extent
from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.stac.items import COG_MEDIA_TYPE
from rmhdag.handlers.stac.validation import STAC_VERSION, find_faults
from rmhdag.models.id_types import StacId

ITEM_ASSETS = {
    "data": {"title": "Data", "type": COG_MEDIA_TYPE, "roles": ["data"]},
    "thumbnail": {"title": "Thumbnail", "type": "image/webp", "roles": ["thumbnail"]},
    "footprint": {"title": "Footprint of the valid data", "type": "application/geo+json", "roles": ["metadata"]},
}


class CollectionWords(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    collection_id: StacId
    title: str | None = Field(None, max_length=500)
    description: str | None = Field(None, max_length=20_000)
    license: str = Field("other", max_length=100, description="SPDX identifier, or `other`")
    keywords: list[str] = Field(default_factory=list, max_length=100)
    providers: list[dict[str, Any]] = Field(default_factory=list, max_length=20)


def build_collection(words: CollectionWords, items: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The collection, if valid. Raises NonRetryableError with every fault."""
    extent, summaries = unknown_extent(), dict[str, Any]()
    for item in items:
        extent, summaries = united(extent, extent_of_item(item)), united_summaries(summaries, item)
    collection = {
        "type": "Collection",
        "stac_version": STAC_VERSION,
        "id": words.collection_id,
        "title": words.title or words.collection_id,
        "description": words.description or words.title or f"Rasters of {words.collection_id}",
        "license": words.license,
        "extent": extent,
        "item_assets": ITEM_ASSETS,
        "links": [{"rel": "root", "href": "../catalog.json", "type": "application/json"}],
    }
    if words.keywords:
        collection["keywords"] = words.keywords
    if words.providers:
        collection["providers"] = words.providers
    if summaries:
        collection["summaries"] = summaries
    faults = find_faults(collection)
    if faults:
        raise NonRetryableError(
            f"the STAC collection {words.collection_id!r} is not valid: {'; '.join(faults)}", code="INVALID_PARAMETER"
        )
    return collection
