"""raster.mosaic: joins many rasters of one grid; tiles are placed by their scheme, other rasters by their position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from rasterio.enums import MaskFlags
from rasterio.io import DatasetReader
from rasterio.transform import Affine
from rasterio.windows import Window

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.cog_files import require_crs
from rmhdag.handlers.raster.opening import open_raster
from rmhdag.handlers.raster.outputs import WORK, keep_file
from rmhdag.handlers.raster.reprojection import told_plan
from rmhdag.handlers.raster.tiles import mosaic_tiles, plan_of
from rmhdag.handlers.raster.tiling_scheme import TilingScheme
from rmhdag.handlers.raster.writing import (
    Pixels,
    ProgressCallback,
    RasterPlan,
    alpha_band,
    common_dtype,
    describe_like,
    masks_of,
    plan_like,
    unwatched,
    watch,
    write_windows,
)
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import NamedBlob, is_unchanged
from rmhdag.models.blobs import BlobAddress, BlobRef, Container
from rmhdag.models.id_types import StacId
from rmhdag.storage import Storage

MOST_RASTERS = 100_000
# The difference in pixels up to which two grids count as one.
ALIGNED = 0.01

Opener = Callable[[int], AbstractContextManager[DatasetReader]]


class TileRef(BaseModel):
    """A tile as raster.process_tile_batch puts it out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    col: Annotated[int, Field(ge=0)]
    row: Annotated[int, Field(ge=0)]
    blob: BlobRef


class EmptyTile(BaseModel):
    """A tile that was not written because it holds nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    col: Annotated[int, Field(ge=0)]
    row: Annotated[int, Field(ge=0)]


class TileBatch(BaseModel):
    """What one batch has made; what else it says is not needed here."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    tiles: list[TileRef]
    empty: list[EmptyTile] = Field(default_factory=list)


class Gathered(BaseModel):
    """The output of a fan-in that collects."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    results: list[TileBatch]


class MosaicParams(BaseModel):
    """Tiles with their scheme, or any rasters of one grid (`sources`, of which the first that has a value counts)."""

    model_config = ConfigDict(extra="forbid")

    tiles: Annotated[list[TileRef] | None, Field(max_length=MOST_RASTERS)] = None
    results: Annotated[
        list[TileBatch] | Gathered | None,
        Field(description="Of a fan-in over batches, or its whole output, which may be too large to look into"),
    ] = None
    scheme: TilingScheme | None = None
    sources: Annotated[list[BlobRef | NamedBlob] | None, Field(min_length=1, max_length=MOST_RASTERS)] = None
    source: Annotated[
        BlobRef | NamedBlob | None, Field(description="What tiles were cut from: colours, names and tags")
    ] = None
    item_id: StacId = "mosaic"
    container: Container = WORK

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        tiled = self.tiles is not None or self.results is not None
        if tiled == (self.sources is not None) or tiled != (self.scheme is not None):
            raise ValueError("give `tiles` or `results` with their `scheme`, or `sources`")
        return self

    def all_tiles(self, scheme: TilingScheme) -> dict[tuple[int, int], BlobRef]:
        """Tiles of batches must be complete: an unnoticed hole would be published as nodata."""
        results = self.results.results if isinstance(self.results, Gathered) else self.results or []
        batches = [self.tiles or [], *(batch.tiles for batch in results)]
        blobs = {(tile.col, tile.row): tile.blob for batch in batches for tile in batch}
        numbers = blobs.keys() | {(tile.col, tile.row) for batch in results for tile in batch.empty}
        if self.results is not None and len(numbers) != scheme.tile_count:
            raise NonRetryableError(
                f"{scheme.tile_count - len(numbers)} of {scheme.tile_count} tiles are missing: "
                "retry the batches that failed, then the mosaic",
                code="RESOURCE_NOT_FOUND",
            )
        return blobs


@handler("raster.mosaic", aliases=["raster_mosaic"])
def mosaic(ctx: HandlerContext[MosaicParams]) -> dict[str, Any]:
    """Puts tiles or rasters of one grid together, window by window, and keeps the result in silver."""
    params = ctx.params
    local = ctx.scratch / "mosaic.tif"
    if params.scheme is not None:
        tiles = params.all_tiles(params.scheme)
        plan, count = join_tiles(ctx, params.scheme, tiles, local)
        if isinstance(params.source, BlobRef):
            require_same_source(ctx.storage, params.source, params.scheme, tiles)
    else:
        places = [opened_at(source) for source in params.sources or []]
        count = len(places)
        plan = join_rasters(lambda number: open_raster(ctx, places[number]), count, local, watch(ctx))
    blob = keep_file(ctx.storage, local, params.container, params.item_id)
    return {"mosaic": blob.model_dump(mode="json"), "count": count, **told_plan(plan)}


def opened_at(source: BlobRef | NamedBlob) -> BlobRef | BlobAddress:
    return source if isinstance(source, BlobRef) else source.address


def join_tiles(
    ctx: HandlerContext[MosaicParams], scheme: TilingScheme, tiles: dict[tuple[int, int], BlobRef], local: Path
) -> tuple[RasterPlan, int]:
    tell = watch(ctx)
    with ExitStack() as stack:
        source = ctx.params.source
        mosaic_tiles(
            scheme,
            tiles,
            lambda col, row: open_raster(ctx, tiles[col, row]),
            local,
            like=None if source is None else stack.enter_context(open_raster(ctx, opened_at(source))),
            progress=lambda done: tell(done / max(len(tiles), 1), "joining tiles"),
        )
    return plan_of(scheme), len(tiles)


def require_same_source(
    storage: Storage, source: BlobRef, scheme: TilingScheme, places: Iterable[tuple[int, int]]
) -> None:
    """Tiles are named after the content they were cut from. If the content has changed, the tiles are deleted.

    Deleted are the names that the scheme gives to tiles, never an address that came as a parameter.
    """
    if is_unchanged(storage, source):
        return
    for col, row in places:
        storage.delete(scheme.address(source, scheme.tile(col, row)))
    raise NonRetryableError(
        f"the file {source.address} was replaced while its tiles were cut, so they were thrown away: submit it again",
        code="VALIDATION_ERROR",
    )


class Placed(NamedTuple):
    """The position of a raster in the mosaic."""

    number: int
    left: int
    top: int
    width: int
    height: int

    def meets(self, window: Window) -> bool:
        return bool(
            self.left < window.col_off + window.width
            and window.col_off < self.left + self.width
            and self.top < window.row_off + window.height
            and window.row_off < self.top + self.height
        )


def join_rasters(open_one: Opener, count: int, target: Path, tell: ProgressCallback = unwatched) -> RasterPlan:
    """One raster from many of one grid, in the order given: where two have a value, that of the first counts.

    A window of one of them is in memory at a time. Each is opened anew for each window: what GDAL may do while a file
    is open is undone in the order in which they were opened.
    """
    with open_one(0) as first:
        require_crs(first)
        grid = plan_like(first)
        frames = []
        holes = False
        for number in range(count):
            with open_one(number) as dataset:
                frames.append(frame_in(grid, dataset, number))
                require_same_meaning(first, dataset, number)
                holes = holes or any(MaskFlags.all_valid not in flags for flags in dataset.mask_flag_enums)
        plan = plan_around(grid, frames, marked=alpha_band(first) is not None, holes=holes)
        origin = (min(frame.left for frame in frames), min(frame.top for frame in frames))
        placed = [frame._replace(left=frame.left - origin[0], top=frame.top - origin[1]) for frame in frames]
        write_windows(
            target,
            plan,
            lambda bands, window: joined(open_one, placed, plan, bands, window),
            lambda window: joined_mask(open_one, placed, window),
            describe=describe_like(first),
            tell=tell,
            message="joining rasters",
        )
    return plan


def differing_code(grid: RasterPlan, dataset: DatasetReader) -> str:
    if dataset.crs != grid.crs:
        return "COLLECTION_CRS_MISMATCH"
    return "COLLECTION_BAND_MISMATCH" if dataset.count != grid.bands else "COLLECTION_DTYPE_MISMATCH"


def frame_in(grid: RasterPlan, dataset: DatasetReader, number: int) -> Placed:
    """In pixels of the first raster's grid. Raises NonRetryableError if it is on another."""
    kind = (dataset.crs, dataset.count, common_dtype(dataset))
    if kind != (grid.crs, grid.bands, grid.dtype):
        raise NonRetryableError(
            f"raster {number + 1} has another coordinate system, type or number of bands than the first one: "
            "bring them together with raster.reproject",
            code=differing_code(grid, dataset),
        )
    step = ~grid.transform @ dataset.transform
    skewed = max(abs(step.a - 1) * dataset.width, abs(step.e - 1) * dataset.height, abs(step.b), abs(step.d))
    left, top = round(step.c), round(step.f)
    if skewed > ALIGNED or abs(step.c - left) > ALIGNED or abs(step.f - top) > ALIGNED:
        raise NonRetryableError(
            f"the pixels of raster {number + 1} do not lie on those of the first one: "
            "bring them onto one grid with raster.reproject",
            code="COLLECTION_RESOLUTION_MISMATCH",
        )
    return Placed(number, left, top, dataset.width, dataset.height)


def require_same_meaning(first: DatasetReader, dataset: DatasetReader, number: int) -> None:
    if (dataset.scales, dataset.offsets) != (first.scales, first.offsets):
        raise NonRetryableError(
            f"raster {number + 1} has another scale or offset than the first one, so equal numbers in them are not "
            "equal values: write both without, with `gdal_translate -unscale -ot Float32 in.tif out.tif`",
            code="COLLECTION_DTYPE_MISMATCH",
        )
    if alpha_band(dataset) != alpha_band(first):
        raise NonRetryableError(
            f"only one of raster {number + 1} and the first one has an alpha band, or it is another band: "
            "give all of them the same bands, with `gdal_translate -colorinterp`",
            code="COLLECTION_BAND_MISMATCH",
        )


def plan_around(grid: RasterPlan, frames: Sequence[Placed], *, marked: bool, holes: bool) -> RasterPlan:
    """Pixels without a value in any raster become nodata, transparent (`marked`), or masked."""
    left, top = min(frame.left for frame in frames), min(frame.top for frame in frames)
    right = max(frame.left + frame.width for frame in frames)
    bottom = max(frame.top + frame.height for frame in frames)
    unmarked = grid.nodata is None and not marked
    return grid._replace(
        width=right - left,
        height=bottom - top,
        transform=grid.transform @ Affine.translation(left, top),
        masked=grid.masked or (unmarked and (holes or has_gap(frames, left, right))),
    )


def has_gap(frames: Sequence[Placed], left: int, right: int) -> bool:
    """Whether some pixel is in none of them: between two edges, all rows of pixels are covered alike."""
    lefts, tops, widths, heights = np.array(sorted(frame[1:] for frame in frames)).T
    edges = np.unique(np.concatenate([tops, tops + heights]))
    for row in edges[:-1]:
        here = (tops <= row) & (row < tops + heights)
        reached = np.maximum.accumulate(np.concatenate([[left], (lefts + widths)[here]]))
        if (np.append(lefts[here], right) > reached).any():
            return True
    return False


def joined(open_one: Opener, placed: list[Placed], plan: RasterPlan, bands: list[int], window: Window) -> Pixels:
    result = np.full(
        (len(bands), window.height, window.width), 0 if plan.nodata is None else plan.nodata, dtype=plan.dtype
    )
    empty = np.ones(result.shape, dtype=bool)
    for frame in placed:
        if frame.meets(window):
            here, there = overlap(frame, window)
            with open_one(frame.number) as dataset:
                pixels: Pixels = dataset.read(bands, window=there)
                masks = masks_of(dataset, bands, there)
            place = (slice(None), *here)
            fillable = (masks > 0) & empty[place]
            if plan.nodata is not None and not plan.masked and (pixels[fillable] == plan.nodata).any():
                raise NonRetryableError(
                    f"raster {frame.number + 1} has valid pixels of {plan.nodata:g}, which is the nodata of the first "
                    "one: give that another `nodata` with raster.reproject, or name another raster first",
                    code="RASTER_NODATA_CONFLICT",
                )
            result[place][fillable] = pixels[fillable]
            empty[place] &= ~fillable
    return result


def joined_mask(open_one: Opener, placed: list[Placed], window: Window) -> NDArray[np.uint8]:
    result = np.zeros((window.height, window.width), dtype=np.uint8)
    for frame in placed:
        if frame.meets(window):
            here, there = overlap(frame, window)
            with open_one(frame.number) as dataset:
                result[here] |= dataset.dataset_mask(window=there)
    return result


def overlap(frame: Placed, window: Window) -> tuple[tuple[slice, slice], Window]:
    """The part that they share: as rows and columns of the window, and as a window of the raster."""
    left, top = max(frame.left, window.col_off), max(frame.top, window.row_off)
    right = min(frame.left + frame.width, window.col_off + window.width)
    bottom = min(frame.top + frame.height, window.row_off + window.height)
    rows = slice(top - window.row_off, bottom - window.row_off)
    columns = slice(left - window.col_off, right - window.col_off)
    return (rows, columns), Window(left - frame.left, top - frame.top, right - left, bottom - top)
