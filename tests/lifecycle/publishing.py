"""A handler that writes one file and publishes it with its item, for workers of these tests."""

from __future__ import annotations

from typing import Any

from rmhdag.handlers import HandlerContext, HandlerResult, handler
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import StacItemRecord, Zone


@handler("test.publish")
def publish(ctx: HandlerContext[dict[str, Any]]) -> HandlerResult:
    number = ctx.params["n"]
    blob = ctx.storage.write(BlobAddress(Zone.SILVER, "cogs", f"{number}.tif"), b"raster %d" % number)
    item = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": "scene",
        "geometry": None,
        "properties": {"datetime": "2026-01-01T00:00:00Z"},
        "links": [],
        "assets": {},
        "n": number,
    }
    return HandlerResult(
        output={"n": number}, records=(blob.record("data"), StacItemRecord(collection_id="c", item=item))
    )
