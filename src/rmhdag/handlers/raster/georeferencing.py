"""Where on earth an open raster is, and whether that is plausible."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.warp import transform, transform_bounds

from rmhdag.handlers.raster.crs import crs_name, is_of_the_earth, kept_crs, radius_of
from rmhdag.handlers.raster.findings import Finding, warn
from rmhdag.handlers.raster.opening import GDAL_ERRORS
from rmhdag.models.handler_result import DataWarning

Bounds = tuple[float, float, float, float]
Points = NDArray[np.float64]
WGS84 = "EPSG:4326"
# GDAL's confidence in per cent that a system matches a code; at 90 only names differ.
LIKELY, SURE = 70, 90
# Samples per side of an area that is partly off the earth.
SAMPLES = 257
# In degrees: pixels of 360/700 are not quite 360 together.
ROUNDING = 1e-6
# Share of the points' extent; points off the earth return farther away.
BACK_TO = 1e-3


class NotOnEarth(ValueError):
    """What is wrong, as the second half of a sentence that begins with the file's name; and its code."""

    def __init__(self, message: str, code: str = "GEOTRANSFORM_MISSING") -> None:
        super().__init__(message)
        self.code = code


class Georeference(NamedTuple):
    crs: str
    bounds: Bounds
    # As GeoJSON has it: west > east for what crosses the antimeridian.
    bounds_wgs84: Bounds
    resolution: tuple[float, float]
    warnings: tuple[DataWarning, ...]


def georeference_of(dataset: rasterio.DatasetReader) -> Georeference:
    transform = dataset.transform
    if not all(math.isfinite(value) for value in transform):
        raise NotOnEarth(
            "has a position that is not a number (NaN or infinite): "
            "set it again, for example with `gdal_edit.py -a_ullr`"
        )
    if transform.is_identity:
        beside = "; its ground control points must be applied first, as with `gdalwarp`" if dataset.gcps[0] else ""
        raise NotOnEarth(
            f"says nothing about where it lies: give it a position, as with `gdal_edit.py -a_ullr`{beside}"
        )
    if transform.is_degenerate:
        raise NotOnEarth("has pixels without size: set its position again, for example with `gdal_edit.py -a_ullr`")
    if dataset.crs is None:
        raise NotOnEarth(
            "has no coordinate system: set the right one, as with `gdal_edit.py -a_srs EPSG:32633 in.tif`",
            code="CRS_MISSING",
        )
    if not (dataset.crs.is_geographic or dataset.crs.is_projected):
        raise NotOnEarth(
            "has a coordinate system that is not tied to the earth: set the right one, as with "
            "`gdal_edit.py -a_srs EPSG:32633 in.tif`",
            code="VALIDATION_ERROR",
        )
    if not is_of_the_earth(dataset.crs):
        raise NotOnEarth(
            f"is not of the earth: the radius of its coordinate system is {radius_of(dataset.crs) / 1000:,.0f} km. The "
            "catalogue is in degrees of the earth, and has no place for other bodies",
            code="VALIDATION_ERROR",
        )
    bounds = bounds_of(dataset)
    if not all(math.isfinite(value) for value in bounds):
        raise NotOnEarth(
            "has bounds that are not numbers: set its position again, for example with `gdal_edit.py -a_ullr`"
        )
    warnings = crs_warnings(dataset.crs)
    if transform.b or transform.d:
        text = "the raster is rotated: it is straightened when it is made a COG in another coordinate system"
        warnings.append(warn(Finding.ROTATED, text))
    elif transform.a < 0:
        raise NotOnEarth(
            f"is mirrored: its west ({transform.c:g}) lies east of its east; turn it with `gdalwarp in.tif out.tif`",
            code="VALIDATION_ERROR",
        )
    elif transform.e > 0:
        text = "the raster is stored from south to north; most programs expect north to south"
        warnings.append(warn(Finding.SOUTH_UP, text))
    if dataset.crs.is_geographic:
        warnings += _check_degrees(bounds, max(abs(transform.a), abs(transform.e), abs(transform.b), abs(transform.d)))
    resolution = (math.hypot(transform.a, transform.d), math.hypot(transform.b, transform.e))
    return Georeference(crs_name(dataset.crs), bounds, bounds_wgs84(dataset, bounds), resolution, tuple(warnings))


def crs_warnings(crs: CRS) -> list[DataWarning]:
    warnings = []
    if kept_crs(crs) != crs:
        text = "its heights refer to the ellipsoid, which a projected GeoTIFF cannot say: the COG has the plain system"
        warnings.append(warn(Finding.CRS_HEIGHT_DROPPED, text))
    likely = crs.to_authority(confidence_threshold=LIKELY)
    if likely is not None and crs.to_authority(confidence_threshold=SURE) is None:
        text = f"its coordinate system has no code and differs a little from {':'.join(likely)}, which is assumed"
        warnings.append(warn(Finding.CRS_ASSUMED, text))
    return warnings


def bounds_of(dataset: rasterio.DatasetReader) -> Bounds:
    """West, south, east, north. Rasterio has south and north exchanged for a raster that is stored from the south."""
    width, height = dataset.width, dataset.height
    corners = [dataset.transform @ corner for corner in ((0, 0), (0, height), (width, 0), (width, height))]
    xs, ys = [float(x) for x, _ in corners], [float(y) for _, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def bounds_wgs84(dataset: rasterio.DatasetReader, bounds: Bounds) -> Bounds:
    try:
        west, south, east, north = transform_bounds(dataset.crs, WGS84, *bounds)
    except GDAL_ERRORS:
        west = south = east = north = math.nan
    if not all(math.isfinite(value) for value in (west, south, east, north)):
        # The corners of a full disk lie in space, and its middle on earth.
        visible = box_on_earth(dataset.crs, grid_over(bounds))
        if visible is None:
            raise NotOnEarth(
                "has a position that does not exist in its coordinate system: check both, as with `gdalinfo`",
                code="VALIDATION_ERROR",
            )
        west, south, east, north = visible
        west, east = _wrapped(west, east)
    elif dataset.crs.is_geographic:
        west, east = _wrapped(west, east)
    return west, max(south, -90.0), east, min(north, 90.0)


def grid_over(bounds: Bounds) -> Points:
    west, south, east, north = bounds
    x, y = np.meshgrid(np.linspace(west, east, SAMPLES), np.linspace(south, north, SAMPLES))
    return np.column_stack((x.ravel(), y.ravel()))


def box_on_earth(crs: CRS, points: Points) -> Bounds | None:
    """The box around the points that are on earth, grown by one sample step; its east may be beyond 180."""
    degrees = points_on_earth(crs, CRS.from_epsg(4326), points)
    degrees = degrees[np.isfinite(degrees).all(axis=1)]
    if len(degrees) < 3:
        return None
    # Across the antimeridian, the box begins behind the widest gap between longitudes.
    longitudes = np.sort(degrees[:, 0])
    gaps = np.diff(longitudes, prepend=longitudes[-1] - 360)
    first, width = longitudes[gaps.argmax()], 360 - gaps.max()
    margin = width / (SAMPLES - 1)
    if width + 2 * margin >= 360:
        first, width, margin = -180.0, 360.0, 0.0
    south, north = degrees[:, 1].min(), degrees[:, 1].max()
    step = (north - south) / (SAMPLES - 1)
    return (
        float(first - margin),
        float(max(south - step, -90.0)),
        float(first + width + margin),
        float(min(north + step, 90.0)),
    )


def points_between(source: CRS, target: CRS, points: Points) -> Points:
    """Points that the target does not have become infinite.

    GDAL raises an error for them, but only for the first dozens per process: refused points are transformed one by one.
    """
    try:
        return np.column_stack([np.asarray(values) for values in transform(source, target, points[:, 0], points[:, 1])])
    except GDAL_ERRORS:
        if len(points) == 1:
            return np.full((1, 2), np.inf)
    half = len(points) // 2
    return np.concatenate(
        (points_between(source, target, points[:half]), points_between(source, target, points[half:]))
    )


def points_on_earth(crs: CRS, degrees: CRS, points: Points) -> Points:
    """In degrees; not finite where a projected coordinate has no place on earth."""
    places = points_between(crs, degrees, points)
    if crs.is_geographic or not np.isfinite(places).any():
        return places
    is_finite = np.isfinite(places).all(axis=1)
    away = points[is_finite] - points_between(degrees, crs, places[is_finite])
    least = BACK_TO * float(np.ptp(points, axis=0).max())
    west, east = points_between(degrees, crs, np.array([[-180 + 1e-9, 0.0], [180 - 1e-9, 0.0]]))[:, 0]
    if math.isfinite(west) and math.isfinite(east) and east - west > least:
        # Cylindrical projections may cover more than one turn, as with longitudes up to 360.
        away[:, 0] -= (east - west) * np.round(away[:, 0] / (east - west))
    places[np.flatnonzero(is_finite)[~(np.abs(away).max(axis=1) <= least)]] = np.inf
    return places


def _check_degrees(bounds: Bounds, pixel: float) -> list[DataWarning]:
    """A pixel may overlap the pole by half; whatever is farther out is a mistake."""
    west, south, east, north = bounds
    if south < -90 - pixel or north > 90 + pixel:
        raise NotOnEarth(
            f"reaches from latitude {south:g} to {north:g}, beyond the poles: its coordinate system is in degrees, "
            "its position is not, or latitude and longitude are swapped; check with `gdalinfo`",
            code="VALIDATION_ERROR",
        )
    if east - west > 360 + 2 * pixel:
        raise NotOnEarth(
            f"is {east - west:g} degrees wide, more than once round the earth: check it with `gdalinfo`",
            code="VALIDATION_ERROR",
        )
    if west < -360 - pixel or east > 540 + pixel:
        raise NotOnEarth(
            f"reaches from longitude {west:g} to {east:g}: longitudes go from -180 to 180", code="VALIDATION_ERROR"
        )
    if west < -180 - pixel or east > 180 + pixel:
        return [warn(Finding.SUSPICIOUS_BOUNDS, "longitudes run beyond the antimeridian, below -180 or above 180")]
    return []


def _wrapped(west: float, east: float) -> tuple[float, float]:
    if east - west >= 360 - ROUNDING:
        return -180.0, 180.0
    west, east = (value if -180 <= value <= 180 else (value + 180) % 360 - 180 for value in (west, east))
    return west, east
