"""Shapes from outside: boxes and GeoJSON, checked before they are used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import shapely
from shapely.errors import ShapelyError
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from rmhdag.handlers.contract import NonRetryableError

MOST_VERTICES = 1_000_000
AREAS = frozenset({"Polygon", "MultiPolygon"})
Box = tuple[float, float, float, float]


class GeometryRefused(NonRetryableError):
    """What is wrong with a shape, and what to do about it."""

    default_code = "INVALID_PARAMETER"


def check_bbox(bbox: Sequence[float], *, is_geographic: bool = True) -> list[Box]:
    """The box as one box, or as two if it crosses the antimeridian (west > east, as GeoJSON has it)."""
    if len(bbox) != 4 or not all(math.isfinite(value) for value in bbox):
        raise GeometryRefused(f"bbox {list(bbox)[:6]}: give four finite numbers, [west, south, east, north]")
    west, south, east, north = (float(value) for value in bbox)
    if south >= north or west == east:
        raise GeometryRefused(f"bbox {list(bbox)} is empty: south must be less than north, and west differ from east")
    if not is_geographic:
        if west > east:
            raise GeometryRefused(f"bbox {list(bbox)}: west is greater than east; give [west, south, east, north]")
        return [(west, south, east, north)]
    if south < -90 or north > 90:
        raise GeometryRefused(
            f"bbox {list(bbox)}: latitudes go from -90 to 90; give [west, south, east, north], longitude first"
        )
    if not (-180 <= west <= 180 and -180 <= east <= 180):
        raise GeometryRefused(
            f"bbox {list(bbox)}: longitudes go from -180 to 180; a box across the antimeridian has west > east, "
            "as [170, -20, -170, -10]"
        )
    if west < east:
        return [(west, south, east, north)]
    halves = [(west, south, 180.0, north), (-180.0, south, east, north)]
    return [half for half in halves if half[0] < half[2]]


def check_geometry(value: Any, *, is_geographic: bool = True) -> BaseGeometry:
    """GeoJSON (a geometry, a feature or a collection of features) as one valid area."""
    geometries = list(_geometries(value, depth=0))
    if not geometries:
        raise GeometryRefused("the shape is empty: give a Polygon or MultiPolygon as GeoJSON")
    shapes = [_checked(geometry, is_geographic=is_geographic) for geometry in geometries]
    return shapes[0] if len(shapes) == 1 else shapely.union_all(shapes)


def _geometries(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    kind = value.get("type") if isinstance(value, dict) else None
    if depth < 4:
        if kind == "Feature":
            yield from _geometries(value.get("geometry"), depth + 1)
            return
        inside = {"FeatureCollection": "features", "GeometryCollection": "geometries"}.get(str(kind))
        if inside is not None and isinstance(value.get(inside), list):
            for member in value[inside]:
                yield from _geometries(member, depth + 1)
            return
    if kind not in AREAS:
        raise GeometryRefused(f"the shape has the type {str(kind)[:40]}: give a Polygon or MultiPolygon as GeoJSON")
    yield value


def _checked(value: dict[str, Any], *, is_geographic: bool) -> BaseGeometry:
    vertices = 0
    for x, y in _positions(value.get("coordinates"), depth=0):
        vertices += 1
        if vertices > MOST_VERTICES:
            raise GeometryRefused(f"the shape has more than {MOST_VERTICES:,} corners: simplify it")
        if not (math.isfinite(x) and math.isfinite(y)):
            raise GeometryRefused(f"the shape has a corner at [{x}, {y}], which is nowhere: give finite numbers")
        if is_geographic and abs(y) > 90:
            raise GeometryRefused(
                f"the shape has a corner at latitude {y:g}, beyond the pole: GeoJSON has [longitude, latitude]"
            )
        if is_geographic and abs(x) > 180:
            raise GeometryRefused(
                f"the shape has a corner at longitude {x:g}: longitudes go from -180 to 180; "
                "cut shapes that cross the antimeridian there into a MultiPolygon"
            )
    if not vertices:
        raise GeometryRefused("the shape is empty: it has no corners; give a Polygon or MultiPolygon as GeoJSON")
    try:
        geometry = shape(value)
    except (ShapelyError, ValueError, TypeError, IndexError) as error:
        raise GeometryRefused(f"the shape is not valid GeoJSON ({error}): rings have at least four positions") from None
    # The area of a shape that crosses itself may cancel out.
    if geometry.is_empty or geometry.convex_hull.area == 0:
        raise GeometryRefused("the shape is empty: it covers no area; give a Polygon or MultiPolygon with an inside")
    if not geometry.is_valid:
        raise GeometryRefused(
            f"the shape is not valid ({shapely.is_valid_reason(geometry)}): its outline crosses or touches itself; "
            "repair it, as with ST_MakeValid or the tool `Fix geometries` of QGIS"
        )
    return geometry


def _positions(value: Any, depth: int) -> Iterator[tuple[float, float]]:
    if isinstance(value, list | tuple):
        if len(value) >= 2 and all(
            isinstance(member, int | float) and not isinstance(member, bool) for member in value[:2]
        ):
            yield value[0], value[1]
            return
        if depth < 4:
            for member in value:
                yield from _positions(member, depth + 1)
            return
    raise GeometryRefused("the shape is not valid GeoJSON: its coordinates are not lists of [longitude, latitude]")
