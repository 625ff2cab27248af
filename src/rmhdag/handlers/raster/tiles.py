"""Cuts a raster into tiles and joins them again. No storage, no tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.enums import ColorInterp
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.raster.tiling_scheme import Tile, TilingScheme
from rmhdag.handlers.raster.writing import Pixels, RasterPlan, check_written, created, describe_like, writing


def write_tile(view: DatasetReader | WarpedVRT, scheme: TilingScheme, tile: Tile, path: Path) -> bool:
    """Write the tile; False if it contains only nodata and was not written."""
    pixels: Pixels = view.read(list(range(1, scheme.bands + 1)), window=tile.window)
    mask = mask_of(view, scheme, tile.window) if scheme.masked else None
    if is_empty(pixels, mask, scheme, view.colorinterp):
        return False
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), created(path, plan_of(scheme, tile.window)) as target:
        _put(target, pixels, mask, path)
    check_written(path)
    return True


def mask_of(view: DatasetReader | WarpedVRT, scheme: TilingScheme, window: Window) -> Pixels:
    if view.count == scheme.bands:
        return np.asarray(view.dataset_mask(window=window))
    # GDAL uses such a band as a mask only if its type is unsigned, so it is read as an ordinary band.
    return np.where(view.read(view.count, window=window) > 0, np.uint8(255), np.uint8(0))


def is_empty(pixels: Pixels, mask: Pixels | None, scheme: TilingScheme, colours: tuple[ColorInterp, ...] = ()) -> bool:
    """Whether the tile can be omitted: a mosaic has the same values where no tile was written."""
    nodata = scheme.nodata_value
    if nodata is not None:
        return bool(np.isnan(pixels).all() if np.isnan(nodata) else (pixels == nodata).all())
    if mask is None and ColorInterp.alpha not in colours:
        return False
    return not pixels.any() and (mask is None or not mask.any())


def mosaic_tiles(
    scheme: TilingScheme,
    tiles: Iterable[tuple[int, int]],
    open_tile: Callable[[int, int], AbstractContextManager[DatasetReader]],
    path: Path,
    *,
    like: DatasetReader | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """One file from the tiles (col, row), in the grid's order whatever the order given; the rest is nodata.

    One tile is in memory at a time. What a raster says beside its pixels is taken from `like`.
    """
    ordered_tiles = sorted({scheme.tile(col, row) for col, row in tiles}, key=lambda tile: tile.number)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), created(path, plan_of(scheme), sparse_ok=True) as target:
        if like is not None:
            describe_like(like)(target)
        for done, tile in enumerate(ordered_tiles, 1):
            with open_tile(tile.col, tile.row) as source:
                check_tile(scheme, tile, source)
                mask = source.dataset_mask() if scheme.masked else None
                _put(target, source.read(), mask, path, window=tile.window)
            progress(done)
    check_written(path)


def plan_of(scheme: TilingScheme, window: Window | None = None) -> RasterPlan:
    """The file that holds the whole grid, or a window of it."""
    window = window or Window(0, 0, scheme.width, scheme.height)
    return RasterPlan(
        window.width,
        window.height,
        scheme.coordinate_system,
        scheme.affine @ Affine.translation(window.col_off, window.row_off),
        scheme.bands,
        scheme.dtype,
        scheme.nodata_value,
        scheme.masked,
    )


def _put(target: DatasetWriter, pixels: Pixels, mask: Pixels | None, path: Path, **where: Any) -> None:
    with writing(path):
        target.write(pixels, **where)
        if mask is not None:
            target.write_mask(mask, **where)


def check_tile(scheme: TilingScheme, tile: Tile, source: DatasetReader) -> None:
    actual = (source.width, source.height, source.count, source.dtypes[0])
    expected = (tile.window.width, tile.window.height, scheme.bands, scheme.dtype)
    if actual != expected:
        raise NonRetryableError(
            f"tile {tile.col}/{tile.row} has another size, type or number of bands ({actual}) "
            f"than the scheme ({expected})",
            code="VALIDATION_ERROR",
        )
