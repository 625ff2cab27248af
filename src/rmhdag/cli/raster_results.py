"""What a job has made of a raster, for people: the COG, the STAC item, the thumbnail as a picture, the revision."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from rmhdag.catalogue.layout import item_path
from rmhdag.catalogue.static import CONTAINER
from rmhdag.cli.operations import Operations
from rmhdag.cli.output import emit, has_colour, paint
from rmhdag.cli.tables import show_bytes
from rmhdag.cli.terminal_picture import draw_picture
from rmhdag.models.api.assets import OrderAccepted
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage

PICTURE_COLUMNS = 56
LABEL_WIDTH = 11
# Nobody draws a larger one in a terminal.
THUMBNAIL_BYTES = 4 * 1024 * 1024
CATALOGUE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RasterResults:
    """`facts` are what the node that made the COG says about it."""

    cog: BlobRef
    item: dict[str, Any]
    thumbnail: BlobRef | None
    facts: dict[str, Any] = field(default_factory=dict)
    asset: dict[str, Any] | None = None

    def as_facts(self) -> dict[str, Any]:
        return {
            "cog": self.cog.model_dump(mode="json") | {"overviews": self.facts.get("overviews")},
            "item": self.item,
            "thumbnail": None if self.thumbnail is None else self.thumbnail.model_dump(mode="json"),
            "asset": self.asset,
        }


def results_of(platform: Operations, job: JobOverview, ordered: OrderAccepted) -> RasterResults:
    outputs = job.result_data or {}
    thumbnail = outputs.get("thumbnail")
    asset = None
    if ordered.asset_id is not None:
        revision = next(
            candidate
            for candidate in platform.client.revisions(ordered.asset_id)
            if candidate.revision == ordered.revision
        )
        asset = {"asset_id": ordered.asset_id, "revision": revision.revision, "content_hash": revision.content_hash}
    return RasterResults(
        cog=BlobRef.model_validate(outputs["cog"]),
        item=outputs["item"],
        thumbnail=None if thumbnail is None else BlobRef.model_validate(thumbnail),
        facts=platform.node(job.job_id, "cog").output or {},
        asset=asset,
    )


def item_address(item: dict[str, Any]) -> BlobAddress:
    """Where the static catalogue has it."""
    return BlobAddress(Zone.GOLD, CONTAINER, item_path(item["collection"], item["id"]))


def wait_for_catalogue(results: RasterResults, storage: Storage) -> None:
    """A static catalogue is told after the job has ended, within a second if all is well."""
    deadline = time.monotonic() + CATALOGUE_SECONDS
    while not storage.exists(item_address(results.item)) and time.monotonic() < deadline:
        time.sleep(0.1)


def show_results(results: RasterResults, storage: Storage) -> None:
    rows = describe(results, storage)
    emit("".join(f"{paint(f'{label:<{LABEL_WIDTH}}', '1', sys.stdout)}{text}\n" for label, text in rows))
    if results.thumbnail is not None and has_colour(sys.stdout):
        columns = min(PICTURE_COLUMNS, shutil.get_terminal_size().columns - LABEL_WIDTH - 1)
        lines = draw_picture(storage.read(results.thumbnail.address, THUMBNAIL_BYTES), max(8, columns))
        emit("\n" + "".join(f"{'':<{LABEL_WIDTH}}{line}\n" for line in lines) + "\n")


def place_of(storage: Storage, address: BlobAddress) -> str:
    """A path that can be pasted where files are files, else a URL."""
    return storage.url(address).removeprefix("file://")


def describe(results: RasterResults, storage: Storage) -> list[tuple[str, str]]:
    item, listed = results.item, item_address(results.item)
    name = f"{item['collection']}/{item['id']}"
    rows = [
        ("COG", place_of(storage, results.cog.address)),
        ("", " · ".join(cog_facts(results.cog, results.facts))),
        ("STAC item", place_of(storage, listed) if storage.exists(listed) else name),
        ("", " · ".join(item_facts(item))),
    ]
    if results.thumbnail is not None:
        rows.append(("thumbnail", place_of(storage, results.thumbnail.address)))
    if results.asset is not None:
        asset = results.asset
        content = f", content {asset['content_hash'][:16]}" if asset.get("content_hash") else ""
        rows.append(("asset", f"{asset['asset_id']}, revision {asset['revision']}{content}"))
    return rows


def cog_facts(cog: BlobRef, facts: dict[str, Any]) -> list[str]:
    words = [show_bytes(cog.size_bytes)]
    if "width" in facts and "height" in facts:
        words.append(f"{facts['width']} × {facts['height']} pixels")
    if facts.get("crs"):
        words.append(str(facts["crs"]))
    if facts.get("overviews"):
        words.append(f"overviews {', '.join(map(str, facts['overviews']))}")
    return words


def item_facts(item: dict[str, Any]) -> list[str]:
    words = []
    if item.get("bbox"):
        words.append(" ".join(f"{value:.4g}" for value in item["bbox"]))
    if item.get("properties", {}).get("datetime"):
        words.append(str(item["properties"]["datetime"]))
    words.append(f"assets {', '.join(item.get('assets', {}))}")
    return words
