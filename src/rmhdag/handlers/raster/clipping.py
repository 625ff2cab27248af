"""raster.clip: the part of a raster that lies inside a geometry or a bbox."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from rasterio.crs import CRS
from rasterio.features import geometry_mask
from rasterio.io import DatasetReader
from rasterio.windows import Window
from rasterio.windows import transform as window_transform
from shapely.geometry import box, mapping

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.areas import WGS84, Area, area_of, in_raster
from rmhdag.handlers.raster.cog_files import require_crs, require_fitting
from rmhdag.handlers.raster.crs import CrsText, read_crs
from rmhdag.handlers.raster.geometry import check_bbox, check_geometry
from rmhdag.handlers.raster.opening import open_raster, reading
from rmhdag.handlers.raster.outputs import WORK, item_id_of, keep_file
from rmhdag.handlers.raster.reprojection import told_plan
from rmhdag.handlers.raster.writing import (
    Pixels,
    ProgressCallback,
    RasterPlan,
    alpha_band,
    describe_like,
    masks_of,
    plan_like,
    unwatched,
    watch,
    write_windows,
)
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams
from rmhdag.models.blobs import Container
from rmhdag.models.id_types import StacId


class ClipParams(SourceParams):
    geometry: Annotated[
        dict[str, Any] | None, Field(description="GeoJSON: Polygon, MultiPolygon, Feature or FeatureCollection")
    ] = None
    bbox: Annotated[
        tuple[float, float, float, float] | None,
        Field(description="west, south, east, north; across the antimeridian west is above east"),
    ] = None
    crs: Annotated[CrsText, Field(description="Of the geometry or bbox")] = WGS84
    all_touched: Annotated[
        bool, Field(description="Keep pixels that are touched, not only those whose centre is in")
    ] = False
    nodata: float | Literal["nan"] | None = None
    item_id: StacId | None = None
    container: Container = WORK

    @model_validator(mode="after")
    def _check_one_area(self) -> Self:
        if (self.geometry is None) == (self.bbox is None):
            raise ValueError("give one area: `geometry` as GeoJSON, or `bbox`")
        return self


@handler("raster.clip", aliases=["raster_clip"])
def clip(ctx: HandlerContext[ClipParams]) -> dict[str, Any]:
    """Cuts the part of a raster inside a GeoJSON geometry or bbox out and keeps it in silver."""
    params = ctx.params
    crs = read_crs(params.crs)
    local = ctx.scratch / "clipped.tif"
    with open_raster(ctx, params.address, is_read_whole=True) as dataset, reading(dataset.name, params.place):
        plan = clip_raster(
            dataset,
            local,
            wanted_area(params, crs),
            crs,
            nodata=params.nodata,
            all_touched=params.all_touched,
            tell=watch(ctx),
        )
    blob = keep_file(ctx.storage, local, params.container, params.item_id or item_id_of(params.place))
    return {"raster": blob.model_dump(mode="json"), **told_plan(plan)}


def wanted_area(params: ClipParams, crs: CRS) -> Area:
    if params.bbox is not None:
        return area_of([box(*part) for part in check_bbox(params.bbox, is_geographic=crs.is_geographic)])
    return area_of(check_geometry(params.geometry, is_geographic=crs.is_geographic))


def clip_raster(
    source: DatasetReader,
    target: Path,
    area: Area,
    crs: CRS,
    *,
    nodata: float | Literal["nan"] | None = None,
    all_touched: bool = False,
    tell: ProgressCallback = unwatched,
) -> RasterPlan:
    """Pixels outside become nodata or transparent; a raster that has neither gets a mask."""
    require_crs(source)
    inside = in_raster(area, crs, source)
    if inside.is_empty:
        raise NonRetryableError(
            "the area lies outside of the raster, or only touches its edge: compare both on a map, and check the "
            "order of the coordinates (east before north) and the `crs` of the area",
            code="INVALID_PARAMETER",
        )
    frame = window_around(source, inside)
    plan = plan_clip(source, frame, nodata)
    alpha = alpha_band(source)
    outline = [mapping(inside)]

    def outside(window: Window) -> NDArray[np.bool_]:
        return np.asarray(
            geometry_mask(
                outline,
                (window.height, window.width),
                window_transform(window, plan.transform),
                all_touched=all_touched,
            )
        )

    def read(bands: list[int], window: Window) -> Pixels:
        pixels: Pixels = source.read(bands, window=placed(window, frame), out_dtype=plan.dtype)
        hidden = outside(window)
        if nodata is not None:
            # From now on, the new value marks the pixels that the source marked in another way.
            pixels[masks_of(source, bands, placed(window, frame)) == 0] = plan.nodata
        if plan.nodata is not None:
            pixels[:, hidden] = plan.nodata
        elif alpha is not None and alpha in bands:
            pixels[bands.index(alpha), hidden] = 0
        return pixels

    def mask(window: Window) -> NDArray[np.uint8]:
        values: NDArray[np.uint8] = source.dataset_mask(window=placed(window, frame))
        values[outside(window)] = 0
        return values

    write_windows(
        target,
        plan,
        read,
        mask,
        source_block_height=source.block_shapes[0][0],
        describe=describe_like(source),
        tell=tell,
        message="clipping",
    )
    return plan


def plan_clip(source: DatasetReader, frame: Window, nodata: float | Literal["nan"] | None) -> RasterPlan:
    plan = plan_like(source)
    value = plan.nodata if nodata is None else float(nodata)
    if value is not None:
        require_fitting(value, plan.dtype)
    return plan._replace(
        width=frame.width,
        height=frame.height,
        transform=window_transform(frame, source.transform),
        nodata=value,
        masked=plan.masked or (value is None and alpha_band(source) is None),
    )


def window_around(source: DatasetReader, area: Area) -> Window:
    """Whole pixels of the source, rounded outwards; corners are enough because the area is within its bounds."""
    west, south, east, north = area.bounds
    back = ~source.transform
    corners = [back * corner for corner in ((west, north), (east, north), (west, south), (east, south))]
    # Slightly inwards, so that an edge on a pixel's edge does not include the next pixel.
    left = max(0, math.floor(min(x for x, _ in corners) + 1e-6))
    top = max(0, math.floor(min(y for _, y in corners) + 1e-6))
    right = min(source.width, math.ceil(max(x for x, _ in corners) - 1e-6))
    bottom = min(source.height, math.ceil(max(y for _, y in corners) - 1e-6))
    return Window(left, top, max(1, right - left), max(1, bottom - top))


def placed(window: Window, frame: Window) -> Window:
    return Window(window.col_off + frame.col_off, window.row_off + frame.row_off, window.width, window.height)
