"""Writes pixels into our own files: the plan of a file, and the windows in which it is written.

Memory is bounded by the window and by GDAL's cache, never by the size of a raster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.transform import Affine
from rasterio.windows import Window

from rmhdag.handlers.contract import HandlerContext, TaskInterrupted
from rmhdag.handlers.raster.crs import kept_crs
from rmhdag.handlers.raster.opening import GDAL_ERRORS, RasterRefused, open_local

BLOCK = 512
WINDOW_BYTES = 48 * 2**20
MOST_PIXEL_INTERLEAVED = 4
# Fast, and only read by the next step: level 1 writes float32 at 300 MB/s, half the size of what came in.
PASSING = {"compress": "ZSTD", "zstd_level": "1"}

Pixels = NDArray[Any]


class NotWritten(Exception):
    """One of our files could not be written. The source is not the cause: worth another attempt."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Wraps writes to our own files, so that a full disk is not reported as a damaged source."""
    try:
        yield
    except (*GDAL_ERRORS, RasterRefused) as error:
        reason = str(error.__cause__ or error).replace(f"{path.parent}/", "")
        raise NotWritten(f"{path.name} could not be written ({reason}): is the worker's disk full?") from error


class ProgressCallback(Protocol):
    """Receives the progress. Raises if the work should stop."""

    def __call__(self, done: float, message: str) -> None: ...


def unwatched(done: float, message: str) -> None:
    """Ignores the progress."""


def watch(ctx: HandlerContext[Any], first: float = 0.0, last: float = 100.0) -> ProgressCallback:
    """Progress in percent of the task, of which this work is the part between first and last."""

    def tell(done: float, message: str) -> None:
        if ctx.cancelled:
            raise TaskInterrupted
        ctx.progress(first + (last - first) * min(done, 1.0), 100.0, message)

    return tell


class RasterPlan(NamedTuple):
    """The properties of a file. `masked` files mark valid pixels by a mask, others by nodata or not at all."""

    width: int
    height: int
    crs: CRS | None
    transform: Affine
    bands: int
    dtype: str
    nodata: float | None = None
    masked: bool = False

    @property
    def interleave(self) -> str:
        """Few bands are read together, many one by one."""
        return "pixel" if self.bands <= MOST_PIXEL_INTERLEAVED else "band"

    @property
    def bytes_together(self) -> int:
        """The size of one pixel, for bands that are written together."""
        return int(np.dtype(self.dtype).itemsize) * (self.bands if self.interleave == "pixel" else 1)


def plan_like(dataset: DatasetReader) -> RasterPlan:
    return RasterPlan(
        dataset.width,
        dataset.height,
        dataset.crs,
        dataset.transform,
        dataset.count,
        common_dtype(dataset),
        dataset.nodata,
        has_mask(dataset),
    )


def common_dtype(dataset: DatasetReader) -> str:
    """A TIFF has one type for all bands."""
    return str(np.result_type(*dataset.dtypes)) if len(set(dataset.dtypes)) > 1 else str(dataset.dtypes[0])


def has_mask(dataset: DatasetReader) -> bool:
    """A mask band, which is neither alpha nor nodata."""
    flags = dataset.mask_flag_enums[0]
    return MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags


def alpha_band(dataset: DatasetReader) -> int | None:
    bands = [
        band for band, meaning in zip(dataset.indexes, dataset.colorinterp, strict=True) if meaning is ColorInterp.alpha
    ]
    return bands[-1] if bands else None


def masks_of(dataset: DatasetReader, bands: list[int], window: Window) -> Pixels:
    """Per band; an alpha band counts for all of them, including itself."""
    if alpha_band(dataset) is None:
        return np.asarray(dataset.read_masks(bands, window=window))
    return np.broadcast_to(dataset.dataset_mask(window=window), (len(bands), window.height, window.width))


def predictor_of(dtype: str) -> str:
    """Differences between neighbours compress better than values: by 2 for integers, by 3 for floats."""
    kind = np.dtype(dtype).kind
    return {"f": "3", "i": "2", "u": "2"}.get(kind, "1")


def passing_options(plan: RasterPlan) -> dict[str, Any]:
    """The profile of an intermediate file."""
    return {
        "driver": "GTiff",
        "width": plan.width,
        "height": plan.height,
        "count": plan.bands,
        "dtype": plan.dtype,
        "crs": None if plan.crs is None else kept_crs(plan.crs),
        "transform": plan.transform,
        "nodata": plan.nodata,
        "tiled": True,
        "blockxsize": BLOCK,
        "blockysize": BLOCK,
        "interleave": plan.interleave,
        "bigtiff": "IF_SAFER",
        "predictor": predictor_of(plan.dtype),
        **PASSING,
    }


def windows_of(plan: RasterPlan, source_block_height: int = BLOCK) -> Iterator[Window]:
    """Whole blocks of the target, and whole strips or rows of blocks of the source where they fit into memory."""
    rows = BLOCK * max(1, math.ceil(source_block_height / BLOCK))
    if plan.width * rows * plan.bytes_together > WINDOW_BYTES:
        rows = BLOCK
    columns = WINDOW_BYTES // (rows * plan.bytes_together) // BLOCK * BLOCK
    columns = plan.width if columns >= plan.width else max(BLOCK, columns)
    for top in range(0, plan.height, rows):
        for left in range(0, plan.width, columns):
            yield Window(left, top, min(columns, plan.width - left), min(rows, plan.height - top))


def band_groups(plan: RasterPlan, window: Window) -> Iterator[list[int]]:
    """Bands that fit into memory together; files whose bands lie together are written together."""
    band_bytes = int(window.width * window.height * np.dtype(plan.dtype).itemsize)
    size = plan.bands if plan.interleave == "pixel" else max(1, WINDOW_BYTES // band_bytes)
    for first in range(1, plan.bands + 1, size):
        yield list(range(first, min(first + size, plan.bands + 1)))


def write_windows(
    path: Path,
    plan: RasterPlan,
    read: Callable[[list[int], Window], Pixels],
    read_mask: Callable[[Window], NDArray[np.uint8]] | None = None,
    *,
    source_block_height: int = BLOCK,
    describe: Callable[[DatasetWriter], None] | None = None,
    tell: ProgressCallback = unwatched,
    message: str = "writing",
) -> None:
    """Write an intermediate file, window by window. `read_mask` is called if the plan has a mask."""
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), created(path, plan) as target:
        if describe is not None:
            describe(target)
        done = 0
        for window in windows_of(plan, source_block_height):
            for bands in band_groups(plan, window):
                tell(done / (plan.width * plan.height), message)
                pixels = read(bands, window)
                with writing(path):
                    target.write(pixels, bands, window=window)
            if plan.masked and read_mask is not None:
                mask = read_mask(window)
                with writing(path):
                    target.write_mask(mask, window=window)
            done += window.width * window.height
    check_written(path)
    tell(1.0, message)


def check_written(path: Path) -> None:
    """GDAL does not report write errors when it closes a file, so check that all blocks are in the file."""
    with writing(path), open_local(path):
        pass


@contextmanager
def created(path: Path, plan: RasterPlan, **options: Any) -> Iterator[DatasetWriter]:
    with writing(path):
        target = rasterio.open(path, "w", **passing_options(plan), **options)
    try:
        yield target
    finally:
        with writing(path):
            target.close()


def describe_like(source: DatasetReader, *, bands: list[int] | None = None) -> Callable[[DatasetWriter], None]:
    """Copies the metadata of bands: colours, names, scales, tags. Not statistics: they belong to other pixels."""
    indexes = bands or list(source.indexes)

    def describe(target: DatasetWriter) -> None:
        target.colorinterp = [source.colorinterp[band - 1] for band in indexes]
        for number, band in enumerate(indexes, 1):
            if source.descriptions[band - 1]:
                target.set_band_description(number, source.descriptions[band - 1])
            if source.units[band - 1]:
                target.set_band_unit(number, source.units[band - 1])
            tags = {key: value for key, value in source.tags(band).items() if not key.startswith("STATISTICS_")}
            if tags:
                target.update_tags(number, **tags)
        if source.colorinterp[indexes[0] - 1] is ColorInterp.palette:
            target.write_colormap(1, source.colormap(indexes[0]))
        if any(scale != 1 for scale in source.scales):
            target.scales = [source.scales[band - 1] for band in indexes]
        if any(offset != 0 for offset in source.offsets):
            target.offsets = [source.offsets[band - 1] for band in indexes]
        target.update_tags(**source.tags())

    return describe
