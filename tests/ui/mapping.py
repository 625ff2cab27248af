"""Assets with real rasters, for the screens that show them on a map."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from PIL import Image
from playwright.sync_api import Locator
from rasterio.transform import from_origin
from rasterio.warp import transform_bounds

from rmhdag.models.assets import (
    Approval,
    ApprovalState,
    AssetKind,
    AssetRevision,
    BlobAsset,
    GeospatialAsset,
    ProcessingStatus,
)
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.catalogue import RevisionItem
from rmhdag.models.data_tables import DataTable
from rmhdag.models.records import Zone
from rmhdag.models.table import Row
from rmhdag.storage.zones import Storage
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from tests.store.rows import insert_rows

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PIXELS = 512
LOW, HIGH = 10.0, 20.0
# The ends of the colour scale that a map begins with.
DARK, BRIGHT = (68, 1, 84), (253, 231, 37)
OSLO = (10.4, 59.6, 11.0, 60.0)
CLIP = """\
workflow_id: clip_area
name: Clip an area
inputs:
  bbox: {type: array, required: true, minItems: 4, maxItems: 4, items: {type: number}, description: The area}
  profile: {type: string, enum: [deflate, zstd], default: deflate}
  clouds: {type: integer, minimum: 0, maximum: 100, default: 20}
nodes:
  make: {handler: echo, queue: light, params: {bbox: "{{ inputs.bbox }}"}}
"""


def write_cog(path: Path, *, left: float, right: float) -> dict[str, Any]:
    """Two halves in UTM, each of one value; what the projection extension says about it."""
    pixels = np.full((PIXELS, PIXELS), left, dtype="float32")
    pixels[:, PIXELS // 2 :] = right
    place = from_origin(580_000, 6_640_000, 50, 50)
    shape: dict[str, Any] = {"width": PIXELS, "height": PIXELS, "count": 1, "dtype": "float32", "nodata": -9999.0}
    with rasterio.open(path, "w", driver="COG", crs="EPSG:32632", transform=place, compress="DEFLATE", **shape) as file:
        file.write(pixels, 1)
    with rasterio.open(path) as file:
        west, south, east, north = transform_bounds(file.crs, "EPSG:4326", *file.bounds)
        return {
            "bbox": [west, south, east, north],
            "proj:code": "EPSG:32632",
            "proj:wkt2": file.crs.to_wkt(version="WKT2_2019"),
            "proj:bbox": list(file.bounds),
            "proj:transform": list(file.transform)[:6],
        }


class MapData:
    """Rows as the orchestrator leaves them when a job has completed."""

    def __init__(self, conn: Conn, storage: Storage, folder: Path) -> None:
        self._conn = conn
        self._storage = storage
        self._folder = folder

    def add_asset(self, title: str, revisions: int, **more: Any) -> str:
        asset_id = sha256(title.encode()).hexdigest()[:32]
        refs = {"dataset_id": title}
        row = GeospatialAsset(
            asset_id=asset_id,
            platform_refs=refs,
            latest_revision=revisions,
            processing_status=ProcessingStatus.COMPLETED,
            created_by="ann",
            created_at=NOW,
            updated_at=NOW,
            **{"platform_id": "ddh", "kind": AssetKind.RASTER, **more},
        )
        self._put(row)
        return asset_id

    def add_revision(self, asset_id: str, revision: int, state: ApprovalState, **halves: float) -> str:
        """With a COG; returns its content hash."""
        path = self._folder / f"{asset_id}-{revision}.tif"
        facts = write_cog(path, **halves)
        address = BlobAddress(Zone.SILVER, "cogs", path.name)
        blob = self._storage.upload(path, address)
        bbox = facts.pop("bbox")
        key: dict[str, Any] = {"asset_id": asset_id, "revision": revision}
        outline = ring_of(bbox)
        made: dict[str, Any] = {"created_by": "ann", "created_at": NOW, "updated_at": NOW, "completed_at": NOW}
        done: dict[str, Any] = {
            "status": ProcessingStatus.COMPLETED,
            "content_hash": blob.sha256,
            "review_state": state,
        }
        band = {"data_type": "float32", "nodata": -9999, "statistics": {"minimum": LOW, "maximum": HIGH}, "unit": "m"}
        asset = {"href": self._storage.url(address), "type": "image/tiff; application=geotiff", "raster:bands": [band]}
        item: dict[str, Any] = {
            "type": "Feature",
            "id": "dem",
            "bbox": bbox,
            "geometry": outline,
            "assets": {"data": asset},
        }
        item["properties"] = facts
        file: dict[str, Any] = {
            "zone": Zone.SILVER,
            "container": "cogs",
            "path": path.name,
            "size_bytes": blob.size_bytes,
        }
        self._put(
            AssetRevision(**key, **done, **made, footprint=outline),
            BlobAsset(
                blob_id=sha256(path.name.encode()).hexdigest(),
                **key,
                **file,
                sha256=blob.sha256,
                role="data",
                media_type="image/tiff",
                created_at=NOW,
            ),
            RevisionItem(**key, collection_id="c", item_id="dem", size_bytes=100, created_at=NOW, body=item),
        )
        if state is ApprovalState.PENDING_REVIEW:
            self._put(
                Approval(approval_id=new_id(), **key, content_hash=blob.sha256, requested_by="ann", requested_at=NOW)
            )
        return blob.sha256

    def add_place(self, asset_id: str, bbox: list[float]) -> None:
        """A revision with a place and nothing else."""
        made: dict[str, Any] = {"created_by": "ann", "created_at": NOW, "updated_at": NOW, "completed_at": NOW}
        done: dict[str, Any] = {"status": ProcessingStatus.COMPLETED, "footprint": ring_of(bbox)}
        self._put(AssetRevision(asset_id=asset_id, revision=1, **done, **made))

    def add_vector(self, asset_id: str, bbox: list[float] | None) -> None:
        """A revision that waits for its review, with a table and without an item."""
        content = sha256(asset_id.encode()).hexdigest()
        key: dict[str, Any] = {"asset_id": asset_id, "revision": 1}
        made: dict[str, Any] = {"created_by": "ann", "created_at": NOW, "updated_at": NOW, "completed_at": NOW}
        done: dict[str, Any] = {"status": ProcessingStatus.COMPLETED, "content_hash": content}
        table: dict[str, Any] = {"geometry_type": "Polygon", "feature_count": 9, "details": {"bbox": bbox}}
        names: dict[str, Any] = {"table_name": f"t_{asset_id[:8]}", "stored_name": f"t_{asset_id[:8]}_1"}
        self._put(
            AssetRevision(**key, **done, **made, review_state=ApprovalState.PENDING_REVIEW),
            DataTable(table_id=content, **key, **names, **table, created_at=NOW, next_attempt_at=NOW),
            Approval(approval_id=new_id(), **key, content_hash=content, requested_by="ann", requested_at=NOW),
        )

    def review_of(self, asset_id: str, revision: int) -> tuple[Any, ...]:
        query = """SELECT v.review_state::text, v.clearance::text, v.decided_by, a.current_revision
            FROM dag_asset_revisions AS v JOIN dag_geospatial_assets AS a USING (namespace, asset_id)
            WHERE v.asset_id = %s AND v.revision = %s"""
        row = self._conn.execute(query, [asset_id, revision]).fetchone()
        assert row is not None
        return tuple(row)

    def set_content(self, asset_id: str, revision: int, content_hash: str) -> None:
        given = [content_hash, asset_id, revision]
        for table in ("dag_asset_revisions", "dag_approvals"):
            query = f"UPDATE {table} SET content_hash = %s WHERE asset_id = %s AND revision = %s"
            self._conn.execute(query.encode(), given)

    def _put(self, *rows: Row) -> None:
        for row in rows:
            insert_rows(self._conn, "dagapp", [row])


def ring_of(bbox: list[float]) -> dict[str, Any]:
    west, south, east, north = bbox
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def colour_at(canvas: Locator, x: float, y: float) -> tuple[int, ...]:
    """Of a pixel of what the browser shows, at shares of the width and height."""
    with Image.open(io.BytesIO(canvas.screenshot())) as picture:
        return tuple(picture.convert("RGB").getpixel((int(picture.width * x), int(picture.height * y))))  # type: ignore[arg-type]


def is_like(colour: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return all(abs(one - other) <= 24 for one, other in zip(colour, expected, strict=True))
