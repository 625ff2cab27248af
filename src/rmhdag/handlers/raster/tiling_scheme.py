"""How a raster is cut into tiles: a grid that is described, not listed, and batches that are ranges of it.

A scheme determines the pixels of its tiles. Its hash is part of their names: equal names, equal pixels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple, Self

import morecantile
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.errors import CRSError
from rasterio.io import DatasetReader
from rasterio.transform import Affine, array_bounds
from rasterio.vrt import WarpedVRT
from rasterio.warp import calculate_default_transform, transform_bounds
from rasterio.windows import Window

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.raster.crs import around_its_middle, crs_of_wkt, goes_beyond_180, kept_crs, within_180
from rmhdag.handlers.raster.outputs import WORK
from rmhdag.handlers.raster.writing import BLOCK, alpha_band, common_dtype, has_mask
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone

LARGEST_TILE = 2048
MOST_TILES = 50_000
MOST_TILES_IN_BATCH = 128
# A tile of 2,048² float32 takes about a tenth of a second on one core: a batch takes a second or two.
SAMPLES_IN_BATCH = 2**25

Pixels = Annotated[int, Field(ge=1, le=2**31 - 1)]
NotFinite = Literal["nan", "inf", "-inf"]
ResamplingName = Literal["nearest", "bilinear", "cubic", "average", "mode"]


class Tile(NamedTuple):
    """One cell of the grid; `number` counts row by row from the upper left, from 0."""

    number: int
    col: int
    row: int
    window: Window


class TileRange(BaseModel):
    """A batch: this many tiles from that number on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1, le=MOST_TILES_IN_BATCH)]


class TilingScheme(BaseModel):
    """The grid, and what a pixel in it is. JSON has no NaN, so such a `nodata` is a text there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    width: Pixels
    height: Pixels
    tile_width: Pixels
    tile_height: Pixels
    crs: str
    transform: tuple[float, float, float, float, float, float]
    bands: Annotated[int, Field(ge=1, le=65_535)]
    dtype: str
    nodata: float | NotFinite | None = None
    masked: bool = False
    tms: str | None = None
    zoom: int | None = None
    resampling: ResamplingName = "nearest"
    hash: str = ""

    @model_validator(mode="after")
    def _check_hash(self) -> Self:
        expected = self._digest()
        if self.hash and self.hash != expected:
            raise ValueError("the scheme was changed after it was created: its hash does not match; create it again")
        object.__setattr__(self, "hash", expected)
        return self

    def _digest(self) -> str:
        described = self.model_dump(mode="json", exclude={"hash"})
        return sha256(json.dumps(described, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def columns(self) -> int:
        return math.ceil(self.width / self.tile_width)

    @property
    def rows(self) -> int:
        return math.ceil(self.height / self.tile_height)

    @property
    def tile_count(self) -> int:
        return self.columns * self.rows

    @property
    def nodata_value(self) -> float | None:
        return None if self.nodata is None else float(self.nodata)

    @property
    def coordinate_system(self) -> CRS | None:
        """A scheme is a parameter and may come from anyone, so it is checked."""
        try:
            return crs_of_wkt(self.crs) if self.crs else None
        except CRSError:
            raise NonRetryableError(
                "the coordinate system of the scheme is not WKT: create the scheme again", code="INVALID_PARAMETER"
            ) from None

    @property
    def affine(self) -> Affine:
        return Affine(*self.transform)

    def tile(self, col: int, row: int) -> Tile:
        if not (0 <= col < self.columns and 0 <= row < self.rows):
            raise NonRetryableError(
                f"there is no tile {col}/{row}: the grid has {self.columns} columns and {self.rows} rows",
                code="INVALID_PARAMETER",
            )
        left, top = col * self.tile_width, row * self.tile_height
        window = Window(left, top, min(self.tile_width, self.width - left), min(self.tile_height, self.height - top))
        return Tile(row * self.columns + col, col, row, window)

    def tiles(self, batch: TileRange) -> Iterator[Tile]:
        if batch.first + batch.count > self.tile_count:
            raise NonRetryableError(
                f"the batch ends with tile {batch.first + batch.count - 1}, the last one is {self.tile_count - 1}",
                code="INVALID_PARAMETER",
            )
        for index in range(batch.first, batch.first + batch.count):
            yield self.tile(index % self.columns, index // self.columns)

    def batches(self, batch_size: int | None = None) -> list[TileRange]:
        """Batches of a measured size, so that a task takes seconds; every tile is in exactly one."""
        samples = self.tile_width * self.tile_height * self.bands
        size = min(batch_size or max(1, SAMPLES_IN_BATCH // samples), MOST_TILES_IN_BATCH)
        return [
            TileRange(first=first, count=min(size, self.tile_count - first))
            for first in range(0, self.tile_count, size)
        ]

    def address(self, source: BlobRef, tile: Tile) -> BlobAddress:
        """Named after its source and scheme: an existing tile need not be created again."""
        path = f"{source.sha256}/{self.hash[:16]}/{tile.row:05d}-{tile.col:05d}.tif"
        return BlobAddress(Zone.SILVER, WORK, path)


def pixel_grid(dataset: DatasetReader, *, tile_size: int | None, memory_bytes: int) -> TilingScheme:
    """Tiles in the raster's own pixels, aligned to its blocks, so that no block is read for two of them."""
    block_height, block_width = dataset.block_shapes[0]
    bytes_per_pixel = dataset.count * _item_bytes(dataset)
    if tile_size is None and block_width >= dataset.width > LARGEST_TILE:
        # Strips: a tile that is narrower than its strips has them decoded again for each neighbour.
        width = _at_most_blocks(memory_bytes // (bytes_per_pixel * BLOCK), dataset.width)
        height = _at_most_blocks(memory_bytes // (bytes_per_pixel * width), dataset.height)
    else:
        side = tile_size or _square_side(memory_bytes // bytes_per_pixel)
        width = _whole_blocks(side, block_width, at_most=dataset.width)
        height = _whole_blocks(side, block_height, at_most=dataset.height)
    return _checked(
        TilingScheme(
            width=dataset.width,
            height=dataset.height,
            tile_width=min(width, dataset.width),
            tile_height=min(height, dataset.height),
            crs=kept_crs(dataset.crs).to_wkt() if dataset.crs else "",
            transform=_six(dataset.transform),
            bands=dataset.count,
            dtype=common_dtype(dataset),
            nodata=_json_number(dataset.nodata),
            masked=has_mask(dataset),
        )
    )


def matrix_grid(
    dataset: DatasetReader,
    tms: str,
    *,
    zoom: int | None,
    tile_size: int | None,
    memory_bytes: int,
    resampling: ResamplingName,
) -> TilingScheme:
    """Tiles on a tile matrix set such as WebMercatorQuad, each of them a square of several matrix tiles."""
    if dataset.crs is None:
        raise NonRetryableError(
            "the raster has no coordinate system, so it cannot be laid on a tile matrix: give it one",
            code="CRS_MISSING",
        )
    matrices = _matrix_set(tms)
    target = CRS.from_wkt(matrices.crs.to_wkt())
    if zoom is None:
        grid, _, _ = calculate_default_transform(dataset.crs, target, dataset.width, dataset.height, *dataset.bounds)
        zoom = matrices.zoom_for_res(abs(grid.a))
    if not matrices.minzoom <= zoom <= matrices.maxzoom:
        raise NonRetryableError(
            f"{tms} has the zoom levels {matrices.minzoom} to {matrices.maxzoom}, not {zoom}", code="INVALID_PARAMETER"
        )
    matrix = matrices.matrix(zoom)
    left, bottom, right, top = _bounds_in(target, dataset)
    # Not its `pointOfOrigin`, which has north before east in some sets.
    corner = matrices.xy_bounds(morecantile.Tile(0, 0, zoom))
    origin_x, origin_y = corner.left, corner.top
    span_x, span_y = matrix.cellSize * matrix.tileWidth, matrix.cellSize * matrix.tileHeight
    # Slightly inside, so that a raster that ends on the edge of a tile does not include the next one.
    first_col = _within(math.floor((left - origin_x) / span_x + 1e-9), matrix.matrixWidth)
    last_col = _within(math.ceil((right - origin_x) / span_x - 1e-9) - 1, matrix.matrixWidth)
    first_row = _within(math.floor((origin_y - top) / span_y + 1e-9), matrix.matrixHeight)
    last_row = _within(math.ceil((origin_y - bottom) / span_y - 1e-9) - 1, matrix.matrixHeight)
    if last_col < first_col or last_row < first_row:
        raise NonRetryableError(
            f"the raster lies outside of {tms}: choose another tile matrix set", code="INVALID_PARAMETER"
        )
    masked = _needs_mask(dataset)
    side = tile_size or _square_side(memory_bytes // ((dataset.count + masked) * _item_bytes(dataset)))
    return _checked(
        TilingScheme(
            width=(last_col - first_col + 1) * matrix.tileWidth,
            height=(last_row - first_row + 1) * matrix.tileHeight,
            tile_width=_whole_blocks(side, matrix.tileWidth),
            tile_height=_whole_blocks(side, matrix.tileHeight),
            crs=target.to_wkt(),
            transform=(
                matrix.cellSize,
                0.0,
                origin_x + first_col * span_x,
                0.0,
                -matrix.cellSize,
                origin_y - first_row * span_y,
            ),
            bands=dataset.count,
            dtype=common_dtype(dataset),
            nodata=_json_number(dataset.nodata),
            masked=masked,
            tms=tms,
            zoom=zoom,
            resampling=resampling,
        )
    )


@contextmanager
def viewed(dataset: DatasetReader, scheme: TilingScheme) -> Iterator[DatasetReader | WarpedVRT]:
    """The raster in the pixels of the scheme: itself, or warped while it is read, with its mask as one band more."""
    if scheme.tms is None:
        if (dataset.width, dataset.height, dataset.count) != (scheme.width, scheme.height, scheme.bands):
            raise NonRetryableError(
                "the scheme was created for another raster: its size or its bands differ", code="VALIDATION_ERROR"
            )
        yield dataset
        return
    with WarpedVRT(
        dataset,
        src_crs=around_its_middle(dataset.crs, dataset.bounds.left, dataset.bounds.right),
        crs=scheme.coordinate_system,
        transform=scheme.affine,
        width=scheme.width,
        height=scheme.height,
        resampling=Resampling[scheme.resampling],
        nodata=scheme.nodata_value,
        add_alpha=_needs_mask(dataset),
        # In pixels. The approximation depends on the window that is read, but neighbouring tiles must fit.
        tolerance=0.001,
        dtype=scheme.dtype,
    ) as warped:
        yield warped


def scheme_bounds(scheme: TilingScheme) -> tuple[float, float, float, float]:
    left, bottom, right, top = array_bounds(scheme.height, scheme.width, scheme.affine)
    return float(left), float(bottom), float(right), float(top)


def _bounds_in(target: CRS, dataset: DatasetReader) -> tuple[float, float, float, float]:
    """Parts beyond 180 degrees are moved to the other end of the range."""
    left, bottom, right, top = dataset.bounds
    spans = within_180(left, right) if goes_beyond_180(dataset.crs, left, right) else [(left, right)]
    bounds = [transform_bounds(dataset.crs, target, west, bottom, east, top, densify_pts=21) for west, east in spans]
    lefts, bottoms, rights, tops = zip(*bounds, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def _matrix_set(name: str) -> morecantile.TileMatrixSet:
    try:
        return morecantile.tms.get(name)
    except morecantile.errors.InvalidIdentifier as error:
        names = ", ".join(sorted(morecantile.tms.list()))
        raise NonRetryableError(
            f"there is no tile matrix set {name!r}; there are {names}", code="INVALID_PARAMETER"
        ) from error


def _checked(scheme: TilingScheme) -> TilingScheme:
    if scheme.tile_count > MOST_TILES:
        raise NonRetryableError(
            f"the grid would have {scheme.tile_count} tiles of {scheme.tile_width} × {scheme.tile_height} pixels, "
            f"at most {MOST_TILES} are possible: make the tiles larger or the zoom smaller",
            code="INVALID_PARAMETER",
        )
    return scheme


def _needs_mask(dataset: DatasetReader) -> bool:
    """Warping leaves empty corners; without nodata and alpha only a mask can mark them."""
    return dataset.nodata is None and alpha_band(dataset) is None


def _item_bytes(dataset: DatasetReader) -> int:
    return int(np.dtype(common_dtype(dataset)).itemsize)


def _square_side(pixels: int) -> int:
    return min(LARGEST_TILE, max(BLOCK, math.isqrt(max(pixels, 1)) // BLOCK * BLOCK))


def _whole_blocks(length: int, block: int, *, at_most: int | None = None) -> int:
    """The nearest size in whole blocks: of our files, so that a mosaic writes each once, and of the source, so that
    none is read twice, unless these are very large."""
    unit = math.lcm(block, BLOCK)
    if unit > 2 * LARGEST_TILE or (at_most is not None and block >= at_most):
        unit = BLOCK
    return max(unit, round(length / unit) * unit)


def _at_most_blocks(length: int, whole: int) -> int:
    return whole if length >= whole else max(BLOCK, length // BLOCK * BLOCK)


def _six(transform: Affine) -> tuple[float, float, float, float, float, float]:
    a, b, c, d, e, f = (_plain(value) for value in tuple(transform)[:6])
    return a, b, c, d, e, f


def _plain(value: float) -> float:
    """PostgreSQL's numbers have no negative zero, and a scheme must be unchanged after it was stored."""
    return float(value) + 0.0


def _within(position: int, count: int) -> int:
    return min(max(position, 0), count - 1)


def _json_number(value: Any) -> float | NotFinite | None:
    if value is None:
        return None
    number = _plain(value)
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return "nan" if math.isnan(number) else number
