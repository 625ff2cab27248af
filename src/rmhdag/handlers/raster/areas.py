"""A checked area in the coordinate system of a raster, also across the antimeridian."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely
from rasterio.crs import CRS
from rasterio.io import DatasetReader
from rasterio.warp import transform_geom
from shapely.geometry import MultiPolygon, Point, Polygon, box, mapping, shape

from rmhdag.handlers.raster.geometry import GeometryRefused
from rmhdag.handlers.raster.georeferencing import points_between, points_on_earth
from rmhdag.handlers.raster.opening import GDAL_ERRORS

WGS84 = "EPSG:4326"
# A straight edge in one system is a curve in another: the longer side is cut into this many pieces.
PIECES = 64
TURN = 360.0
# Between the points of an edge, a raster may extend a little farther.
MARGIN = 0.05

Area = Polygon | MultiPolygon


def area_of(shapes: Any) -> Area:
    """The parts of one or several shapes that have an area."""
    union = shapely.union_all(shapes)
    if isinstance(union, Polygon | MultiPolygon):
        return union
    return MultiPolygon([part for part in getattr(union, "geoms", ()) if isinstance(part, Polygon)])


def in_raster(area: Area, crs: CRS, dataset: DatasetReader) -> Area:
    """The area in the raster's system, cut to its bounds; empty if they do not meet.

    A raster in degrees may extend beyond 180, so the area is also tried one turn to either side.
    """
    if crs != dataset.crs:
        area = near_raster(area, crs, dataset)
        area = area_of([transformed(part, crs, dataset.crs) for part in shapely.get_parts(area)])
    extent = box(*dataset.bounds)
    turns = (-TURN, 0.0, TURN) if dataset.crs.is_geographic else (0.0,)
    return area_of([shapely.intersection(turned(area, turn), extent) for turn in turns])


def near_raster(area: Area, crs: CRS, dataset: DatasetReader) -> Area:
    """The area near the raster, because its system may be undefined elsewhere; the whole area if that is unknown."""
    if dataset.crs.is_geographic or not crs.is_geographic:
        return area
    extent = box(*dataset.bounds)
    ring = extent.exterior.segmentize(extent.length / (4 * PIECES))
    points = points_on_earth(dataset.crs, crs, np.asarray(ring.coords))
    if not np.isfinite(points).all():
        return area
    longitudes, latitudes = np.unwrap(points[:, 0], period=TURN), points[:, 1]
    west, south, east, north = longitudes.min(), latitudes.min(), longitudes.max(), latitudes.max()
    for pole in (-90.0, 90.0):
        if extent.intersects(Point(points_between(crs, dataset.crs, np.array([[0.0, pole]]))[0])):
            west, south, east, north = -TURN / 2, min(south, pole), TURN / 2, max(north, pole)
    margin = MARGIN * max(east - west, north - south)
    near = box(west - margin, south - margin, east + margin, north + margin)
    return area_of(shapely.intersection(area, shapely.union_all([turned(near, turn) for turn in (-TURN, 0.0, TURN)])))


def transformed(part: Polygon, crs: CRS, target: CRS) -> Area:
    west, south, east, north = part.bounds
    fine = part.segmentize(max(east - west, north - south) / PIECES)
    try:
        moved = shape(transform_geom(crs, target, mapping(fine)))
    except GDAL_ERRORS as error:
        raise GeometryRefused(f"the shape cannot be brought into the raster's coordinate system ({error})") from error
    if not all(map(math.isfinite, moved.bounds)):
        raise GeometryRefused(
            "a part of the shape lies where the raster's coordinate system is not defined: make the shape smaller, "
            "or check its `crs`"
        )
    return area_of(shapely.make_valid(moved))


def turned(area: Area, degrees: float) -> Area:
    return area if not degrees else area_of(shapely.transform(area, lambda points: points + np.array([degrees, 0.0])))
