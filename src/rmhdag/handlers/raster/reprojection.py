"""raster.reproject: a raster in another coordinate system, resolution or both, warped while it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.io import DatasetReader
from rasterio.vrt import WarpedVRT
from rasterio.warp import calculate_default_transform
from rasterio.windows import Window

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.cog_files import json_nodata, require_crs, require_fitting
from rmhdag.handlers.raster.crs import CrsText, around_its_middle, crs_name, read_crs
from rmhdag.handlers.raster.opening import GDAL_ERRORS, open_raster, reading
from rmhdag.handlers.raster.outputs import WORK, item_id_of, keep_file
from rmhdag.handlers.raster.writing import (
    ProgressCallback,
    RasterPlan,
    alpha_band,
    common_dtype,
    describe_like,
    unwatched,
    watch,
    write_windows,
)
from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams
from rmhdag.models.blobs import Container
from rmhdag.models.id_types import StacId

WARP_MEMORY_MB = 64


Resolution = Annotated[float, Field(gt=0, allow_inf_nan=False)]
WarpResampling = Literal[
    "nearest", "bilinear", "cubic", "cubic_spline", "lanczos", "average", "mode", "max", "min", "med", "q1", "q3"
]


class ReprojectParams(SourceParams):
    crs: Annotated[CrsText, Field(description="Where it is to go, such as EPSG:32633")]
    resolution: Annotated[
        Resolution | tuple[Resolution, Resolution] | None,
        Field(description="Size of a pixel in units of the target; what keeps the detail, if not given"),
    ] = None
    resampling: WarpResampling = "nearest"
    nodata: float | Literal["nan"] | None = None
    item_id: StacId | None = None
    container: Container = WORK


@handler("raster.reproject", aliases=["raster_reproject"])
def reproject(ctx: HandlerContext[ReprojectParams]) -> dict[str, Any]:
    """Warps a raster into another coordinate system or resolution and keeps the result in silver."""
    params = ctx.params
    local = ctx.scratch / "reprojected.tif"
    with open_raster(ctx, params.address, is_read_whole=True) as dataset:
        plan = plan_reprojection(dataset, read_crs(params.crs), params.resolution, params.nodata)
        with reading(dataset.name, params.place):
            write_reprojected(dataset, local, plan, Resampling[params.resampling], watch(ctx))
    blob = keep_file(ctx.storage, local, params.container, params.item_id or item_id_of(params.place))
    return {"raster": blob.model_dump(mode="json"), **told_plan(plan)}


def plan_reprojection(
    source: DatasetReader,
    crs: CRS,
    resolution: float | tuple[float, float] | None = None,
    nodata: float | Literal["nan"] | None = None,
) -> RasterPlan:
    """The grid that covers the source in its new system. Corners that stay empty need nodata, alpha or a mask."""
    require_crs(source)
    try:
        transform, width, height = calculate_default_transform(
            source.crs, crs, source.width, source.height, *source.bounds, resolution=resolution
        )
    except GDAL_ERRORS as error:
        raise NonRetryableError(
            f"the raster cannot be brought into {crs_name(crs)[:80]}: {error}; "
            "does it lie where that coordinate system is meant for?",
            code="REPROJECTION_FAILED",
        ) from error
    most = RasterLimits.from_variables().raster_max_pixels
    if not (width and height and math.isfinite(transform.a)) or width * height > most:
        raise NonRetryableError(
            f"the result would have {width} × {height} pixels, at most {most:,} are allowed: "
            "give a coarser `resolution`, in the units of the target",
            code="RASTER_TOO_LARGE",
        )
    value = source.nodata if nodata is None else float(nodata)
    if value is not None:
        require_fitting(value, common_dtype(source))
    return RasterPlan(
        width,
        height,
        crs,
        transform,
        source.count,
        common_dtype(source),
        value,
        masked=value is None and alpha_band(source) is None,
    )


def write_reprojected(
    source: DatasetReader, target: Path, plan: RasterPlan, resampling: Resampling, tell: ProgressCallback = unwatched
) -> None:
    with WarpedVRT(
        source,
        src_crs=around_its_middle(source.crs, source.bounds.left, source.bounds.right),
        crs=plan.crs,
        transform=plan.transform,
        width=plan.width,
        height=plan.height,
        resampling=resampling,
        src_nodata=source.nodata,
        nodata=plan.nodata,
        add_alpha=plan.masked,
        dtype=plan.dtype,
        warp_mem_limit=WARP_MEMORY_MB,
    ) as warped:

        def mask(window: Window) -> NDArray[np.uint8]:
            alpha = warped.read(warped.count, window=window)
            return np.where(alpha > 0, np.uint8(255), np.uint8(0))

        write_windows(
            target,
            plan,
            lambda bands, window: warped.read(bands, window=window),
            mask,
            describe=describe_like(source),
            tell=tell,
            message="warping",
        )


def told_plan(plan: RasterPlan) -> dict[str, Any]:
    left, top = plan.transform * (0, 0)
    right, bottom = plan.transform * (plan.width, plan.height)
    assert plan.crs is not None
    return {
        "width": plan.width,
        "height": plan.height,
        "bands": plan.bands,
        "dtype": plan.dtype,
        "crs": crs_name(plan.crs),
        "bounds": [min(left, right), min(bottom, top), max(left, right), max(bottom, top)],
        "nodata": json_nodata(plan.nodata),
    }
