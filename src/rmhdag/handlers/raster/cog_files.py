"""Writes a raster as a cloud-optimised GeoTIFF: the same pixels in blocks, with overviews, in an efficient order.

The bytes depend only on the source, the options and the libraries.
"""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import rasterio
import rasterio.shutil
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from rasterio.enums import ColorInterp, Resampling
from rasterio.io import DatasetReader
from rasterio.windows import Window

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.raster.cog_layout import CogFaults, cog_faults
from rmhdag.handlers.raster.crs import crs_name
from rmhdag.handlers.raster.georeferencing import bounds_of
from rmhdag.handlers.raster.opening import open_local_with_header
from rmhdag.handlers.raster.writing import (
    Pixels,
    ProgressCallback,
    RasterPlan,
    alpha_band,
    describe_like,
    plan_like,
    predictor_of,
    unwatched,
    write_windows,
    writing,
)

# Shares of the time that copying, overviews and the final order take; measured on 4,096² float32.
COPIED, REDUCED = 0.15, 0.45


class CogProfile(StrEnum):
    DEFLATE = "deflate"
    ZSTD = "zstd"
    LZW = "lzw"
    WEBP = "webp"
    JPEG = "jpeg"


LOSSY = (CogProfile.WEBP, CogProfile.JPEG)
OverviewResampling = Literal["nearest", "average", "bilinear", "cubic", "mode", "gauss", "lanczos"]


class CogOptions(BaseModel):
    """How a COG is written. Lossy profiles are for pictures of 8 bits: `jpeg` of 1 or 3 bands, `webp` of 3 or 4."""

    model_config = ConfigDict(extra="forbid")

    profile: CogProfile = CogProfile.DEFLATE
    blocksize: Literal[128, 256, 512, 1024, 2048] = 512
    resampling: Annotated[
        OverviewResampling | None,
        Field(description="Resampling of overviews; default: average for floats and RGB, nearest for everything else"),
    ] = None
    nodata: Annotated[
        float | Literal["nan"] | None,
        Field(description="The nodata value; default: that of the source"),
    ] = None
    quality: Annotated[int, Field(ge=1, le=100, description="Of lossy profiles")] = 85


class CogLayout(NamedTuple):
    """What became of it."""

    width: int
    height: int
    bands: int
    dtype: str
    crs: str
    bounds: list[float]
    nodata: float | str | None
    overviews: list[int]


def write_cog(
    source: DatasetReader, target: Path, scratch: Path, options: CogOptions, tell: ProgressCallback = unwatched
) -> CogLayout:
    """Write `target` from an open raster; `scratch` is a folder for intermediate files. Raises NonRetryableError."""
    require_crs(source)
    bands, plan = plan_cog(source, options)
    passing = scratch / f"{target.stem}.passing.tif"
    try:
        write_windows(
            passing,
            plan,
            lambda numbers, window: source.read(
                [bands[band - 1] for band in numbers], window=window, out_dtype=plan.dtype
            ),
            lambda window: mask_of(source, window, options),
            source_block_height=source.block_shapes[0][0],
            describe=describe_like(source, bands=bands),
            tell=lambda done, message: tell(done * COPIED, message),
            message="reading",
        )
        with writing(passing):
            overviews = add_overviews(passing, options, tell)
        tell(REDUCED, "writing the COG")
        with writing(target):
            rasterio.shutil.copy(
                passing, target, strict=False, **creation_options(plan, options), copy_src_overviews="YES"
            )
    finally:
        passing.unlink(missing_ok=True)
    # Opened with the checks for files from outside, which also find missing parts.
    with writing(target), open_local_with_header(target) as written:
        layout = layout_of(written.dataset, overviews)
        faults = cog_faults(written)
    require_valid_cog(faults)
    tell(1.0, "the COG is valid")
    return layout


def plan_cog(source: DatasetReader, options: CogOptions) -> tuple[list[int], RasterPlan]:
    """The bands to write, and the plan of the file. A lossy profile would change nodata, so the file gets a mask."""
    plan = plan_like(source)._replace(nodata=nodata_of(source, options))
    bands = list(source.indexes)
    if options.profile in LOSSY:
        alpha = alpha_band(source)
        if alpha is not None and options.profile is CogProfile.JPEG:
            bands.remove(alpha)
        hidden = plan.nodata is not None or plan.masked or len(bands) < source.count
        plan = plan._replace(bands=len(bands), nodata=None, masked=hidden)
        require_picture(source, plan, options.profile)
    elif plan.nodata is not None:
        require_fitting(plan.nodata, plan.dtype)
        if options.nodata is not None:
            plan = plan._replace(masked=False)
    return bands, plan


def nodata_of(source: DatasetReader, options: CogOptions) -> float | None:
    if options.nodata is None:
        return None if source.nodata is None else float(source.nodata)
    return float(options.nodata)


def mask_of(source: DatasetReader, window: Window, options: CogOptions) -> NDArray[np.uint8]:
    """Which pixels are valid. An explicit nodata value overrides that of the file."""
    mask: NDArray[np.uint8] = source.dataset_mask(window=window)
    if options.nodata is None:
        return mask
    nodata = float(options.nodata)
    pixels: Pixels = source.read(window=window)
    empty = np.isnan(pixels) if math.isnan(nodata) else pixels == nodata
    return np.where(empty.all(axis=0), np.uint8(0), np.uint8(255))


def add_overviews(path: Path, options: CogOptions, tell: ProgressCallback) -> list[int]:
    """Level by level, so that a request to stop is noticed in between."""
    with rasterio.open(path, "r+", driver="GTiff") as dataset:
        factors = overview_factors(dataset.width, dataset.height, options.blocksize)
        resampling = Resampling[options.resampling or default_resampling(dataset)]
        for number, factor in enumerate(factors):
            # Each level has a quarter of the pixels of the one before.
            tell(COPIED + (REDUCED - COPIED) * (1 - 0.25**number), f"overview 1:{factor}")
            dataset.build_overviews([factor], resampling)
        dataset.update_tags(OVERVIEW_RESAMPLING=resampling.name.upper())
    return factors


def overview_factors(width: int, height: int, smallest: int) -> list[int]:
    """Halved until it fits into one block."""
    factors = []
    factor = 2
    while max(width, height) / (factor / 2) > smallest:
        factors.append(factor)
        factor *= 2
    return factors


def default_resampling(dataset: DatasetReader) -> OverviewResampling:
    """Averages of class numbers mean nothing, so integers keep their values unless they are colours."""
    is_picture = ColorInterp.red in dataset.colorinterp
    return "average" if is_picture or np.dtype(dataset.dtypes[0]).kind == "f" else "nearest"


def creation_options(plan: RasterPlan, options: CogOptions) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "driver": "GTiff",
        "tiled": "YES",
        "blockxsize": options.blocksize,
        "blockysize": options.blocksize,
        "interleave": plan.interleave,
        "compress": options.profile.upper(),
        "bigtiff": "IF_SAFER",
    }
    match options.profile:
        case CogProfile.JPEG:
            profile["jpeg_quality"] = options.quality
            profile["photometric"] = "YCBCR" if plan.bands == 3 else "MINISBLACK"
        case CogProfile.WEBP:
            profile["webp_level"] = options.quality
        case _:
            profile["predictor"] = predictor_of(plan.dtype)
    return profile


def layout_of(dataset: DatasetReader, overviews: list[int]) -> CogLayout:
    return CogLayout(
        dataset.width,
        dataset.height,
        dataset.count,
        str(dataset.dtypes[0]),
        crs_name(dataset.crs),
        list(bounds_of(dataset)),
        json_nodata(dataset.nodata),
        overviews,
    )


def json_nodata(value: float | None) -> float | str | None:
    """JSON has no NaN."""
    if value is None:
        return None
    return float(value) if math.isfinite(value) else str(value)


def require_crs(source: DatasetReader) -> None:
    if source.crs is None:
        raise NonRetryableError(
            "the raster does not say in which coordinate system it is: ask its producer and set it, "
            "for example with `rio edit-info --crs EPSG:32633 file.tif`",
            code="CRS_MISSING",
        )


def require_fitting(nodata: float, dtype: str) -> None:
    kind = np.dtype(dtype).kind
    limits = np.iinfo(dtype) if kind in "iu" else None
    if limits is not None and not (nodata.is_integer() and limits.min <= nodata <= limits.max):
        raise NonRetryableError(
            f"nodata {nodata:g} is not a value of {dtype} pixels: "
            f"give a whole number from {limits.min} to {limits.max}",
            code="INVALID_PARAMETER",
        )


def require_picture(source: DatasetReader, plan: RasterPlan, profile: CogProfile) -> None:
    if ColorInterp.palette in source.colorinterp:
        raise NonRetryableError(
            f"profile {profile} would change the classes of this raster, which has a palette: choose deflate or zstd",
            code="INVALID_PARAMETER",
        )
    allowed = (1, 3) if profile is CogProfile.JPEG else (3, 4)
    if plan.dtype != "uint8" or plan.bands not in allowed:
        counts = " or ".join(map(str, allowed))
        raise NonRetryableError(
            f"profile {profile} is for 8-bit pictures of {counts} bands; this raster has {plan.bands} of {plan.dtype}: "
            "choose deflate or zstd",
            code="INVALID_PARAMETER",
        )


def require_valid_cog(faults: CogFaults) -> None:
    """Refuse to publish an invalid COG. The file is complete: writing it again would change nothing."""
    if any(faults):
        raise NonRetryableError(
            f"the file that was written is not a valid COG: {'; '.join([*faults.errors, *faults.warnings])}. "
            "Choose another `blocksize`, and report this",
            code="COG_TRANSLATE_FAILED",
        )
