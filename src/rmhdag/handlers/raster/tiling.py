"""Tiling as tasks: a scheme, then batches of tiles. Finished tiles are found, not created again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from rasterio.io import DatasetReader
from rasterio.vrt import WarpedVRT

from rmhdag.handlers import Checkpoint, HandlerContext, NonRetryableError, handler
from rmhdag.handlers.raster.opening import RasterUnreadable, open_raster, reading
from rmhdag.handlers.raster.outputs import TIFF
from rmhdag.handlers.raster.tiles import check_tile, write_tile
from rmhdag.handlers.raster.tiling_scheme import (
    MOST_TILES_IN_BATCH,
    ResamplingName,
    Tile,
    TileRange,
    TilingScheme,
    matrix_grid,
    pixel_grid,
    scheme_bounds,
    viewed,
)
from rmhdag.handlers.sources import SourceParams
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.storage import BlobNotFound, Storage

PHASE = "tiles"
MEGABYTE = 1024**2


class TilingSchemeParams(SourceParams):
    tile_size: Annotated[
        int | None, Field(ge=256, le=16_384, description="Pixels; else as large as the memory allows, up to 2,048")
    ] = None
    batch_size: Annotated[
        int | None, Field(ge=1, le=MOST_TILES_IN_BATCH, description="Tiles per task; else so that it takes seconds")
    ] = None
    memory_mb: Annotated[int, Field(ge=8, le=4096, description="What the pixels of one tile may take")] = 64
    tms: Annotated[
        str | None,
        Field(max_length=64, description="A tile matrix set such as WebMercatorQuad; else the raster's grid"),
    ] = None
    zoom: Annotated[int | None, Field(ge=0, le=30, description="Of the tile matrix set; else by resolution")] = None
    resampling: Annotated[ResamplingName, Field(description="If the pixels have to be warped")] = "nearest"


@handler("raster.generate_tiling_scheme", aliases=["raster_generate_tiling_scheme"])
def generate_tiling_scheme(ctx: HandlerContext[TilingSchemeParams]) -> dict[str, Any]:
    """Cut a raster into a grid of tiles and these into batches, from its header alone."""
    params, storage = ctx.params, ctx.storage
    place = params.address
    memory_bytes = params.memory_mb * MEGABYTE
    with open_raster(ctx, place) as dataset:
        if params.tms is None:
            scheme = pixel_grid(dataset, tile_size=params.tile_size, memory_bytes=memory_bytes)
        else:
            scheme = matrix_grid(
                dataset,
                params.tms,
                zoom=params.zoom,
                tile_size=params.tile_size,
                memory_bytes=memory_bytes,
                resampling=params.resampling,
            )
    source = place if isinstance(place, BlobRef) else _measured(storage, place)
    return {
        "source": source.model_dump(mode="json"),
        "scheme": scheme.model_dump(mode="json"),
        "batches": [batch.model_dump() for batch in scheme.batches(params.batch_size)],
        "tile_count": scheme.tile_count,
        "columns": scheme.columns,
        "rows": scheme.rows,
        "bounds": list(scheme_bounds(scheme)),
    }


class TileBatchParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: BlobRef
    scheme: TilingScheme
    batch: TileRange


@handler("raster.process_tile_batch", aliases=["raster_process_tile_batch"])
async def process_tile_batch(ctx: HandlerContext[TileBatchParams]) -> AsyncIterator[dict[str, Any]]:
    """Make the tiles of a batch, one after the other, straight from the store; tiles of nodata only are just noted."""
    params = ctx.params
    notes = _Notes(ctx.storage, params, ctx.resume)
    with _Source(ctx) as source:
        for tile in params.scheme.tiles(params.batch):
            if not notes.knows(tile):
                notes.add(tile, _make(ctx, source, tile))
                yield {"type": "checkpoint", "phase": PHASE, "data": notes.data()}
            yield {"type": "progress", "current": len(notes), "total": params.batch.count, "message": "tiles"}
    ctx.logger.info("%(made)d tiles made, %(found)d found, %(empty)d empty", notes.metrics())
    yield {"type": "result", "output": notes.output(), "metrics": notes.metrics()}


def _make(ctx: HandlerContext[TileBatchParams], source: _Source, tile: Tile) -> BlobRef | None:
    params = ctx.params
    path = ctx.scratch / f"{tile.number}.tif"
    try:
        if not source.write(tile, path):
            return None
        return ctx.storage.upload(path, params.scheme.address(params.source, tile), media_type=TIFF)
    finally:
        path.unlink(missing_ok=True)


class _Source:
    """Opened for the first tile that is missing: a finished batch reads nothing."""

    def __init__(self, ctx: HandlerContext[TileBatchParams]) -> None:
        self._ctx = ctx
        self._stack = ExitStack()
        self._opened: tuple[str, DatasetReader | WarpedVRT] | None = None

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write(self, tile: Tile, path: Path) -> bool:
        params = self._ctx.params
        if self._opened is None:
            dataset = self._stack.enter_context(open_raster(self._ctx, params.source))
            self._opened = dataset.name, self._stack.enter_context(viewed(dataset, params.scheme))
        name, view = self._opened
        with reading(name, params.source.address):
            return write_tile(view, params.scheme, tile, path)


class _Notes:
    """The known tiles of a batch: from the checkpoint, from the store, or just created."""

    def __init__(self, storage: Storage, params: TileBatchParams, resume: Checkpoint | None) -> None:
        self._storage = storage
        self._params = params
        self._tiles: dict[int, BlobRef | None] = {}
        saved = resume.data["tiles"] if resume is not None and resume.phase == PHASE else []
        # [number, sha256 or null for an empty tile]: short, because a checkpoint may have 60 KB.
        self._saved: dict[int, str | None] = dict(saved)
        self._made = self._found = 0

    def __len__(self) -> int:
        return len(self._tiles)

    def knows(self, tile: Tile) -> bool:
        """Whether an earlier run has written the tile. A damaged or changed file is created again."""
        if tile.number in self._saved and self._saved[tile.number] is None:
            self._tiles[tile.number] = None
            return True
        try:
            blob = _measured(self._storage, self._params.scheme.address(self._params.source, tile))
        except BlobNotFound:
            return False
        expected = self._saved.get(tile.number)
        believed = self._is_whole(tile, blob) if expected is None else blob.sha256 == expected
        if not believed:
            return False
        self._tiles[tile.number] = blob
        self._found += 1
        return True

    def _is_whole(self, tile: Tile, blob: BlobRef) -> bool:
        """Its hash is unknown, so the whole file is read: a damaged tile would stop every later mosaic."""
        try:
            with open_raster(self._storage, blob) as dataset, reading(dataset.name, blob.address):
                check_tile(self._params.scheme, tile, dataset)
                dataset.read()
                dataset.dataset_mask()
        except (NonRetryableError, RasterUnreadable):
            return False
        return True

    def add(self, tile: Tile, blob: BlobRef | None) -> None:
        self._tiles[tile.number] = blob
        self._made += blob is not None

    def data(self) -> dict[str, Any]:
        return {"tiles": [[number, None if blob is None else blob.sha256] for number, blob in self._tiles.items()]}

    def metrics(self) -> dict[str, int]:
        """What this run had to do, which an earlier one may have spared it; the output does not depend on that."""
        return {"made": self._made, "found": self._found, "empty": len(self._tiles) - self._made - self._found}

    def output(self) -> dict[str, Any]:
        columns = self._params.scheme.columns
        places = {number: {"col": number % columns, "row": number // columns} for number in self._tiles}
        return {
            "tiles": [
                {**places[number], "blob": blob.model_dump(mode="json")}
                for number, blob in self._tiles.items()
                if blob is not None
            ],
            "empty": [places[number] for number, blob in self._tiles.items() if blob is None],
        }


def _measured(storage: Storage, address: BlobAddress) -> BlobRef:
    info = storage.info(address)
    return BlobRef(
        zone=address.zone,
        container=address.container,
        path=address.path,
        size_bytes=info.size_bytes,
        sha256=storage.sha256(address),
        media_type=TIFF,
    )
