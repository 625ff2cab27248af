"""Geometries that cross 180 degrees, cut there and moved into the range from -180 to 180.

A geometry crosses if it goes beyond the range, or if two vertices that follow each other are more than 180 degrees
apart. One that is merely wide (Russia, Antarctica, a box around the world) is left alone.
"""

from __future__ import annotations

import numpy as np
import shapely
from shapely import affinity
from shapely.geometry.base import BaseGeometry

HALF, WHOLE = 180.0, 360.0
WORLD_SOUTH, WORLD_NORTH = -90.5, 90.5


def crossing(geometries: np.ndarray) -> np.ndarray:
    """Which of them cross."""
    bounds = shapely.bounds(geometries)
    beyond = (bounds[:, 0] < -HALF) | (bounds[:, 2] > HALF)
    wide = (bounds[:, 2] - bounds[:, 0] > HALF) & ~beyond
    mask: np.ndarray = beyond
    for place in np.flatnonzero(wide):
        mask[place] = _jumps(geometries[place])
    return mask


def cut(geometry: BaseGeometry) -> BaseGeometry:
    """The same shape within -180 to 180. Points are moved, lines and polygons are cut."""
    parts = [_cut_part(part) for part in shapely.get_parts(geometry)]
    merged = [piece for part in parts for piece in shapely.get_parts(part) if not piece.is_empty]
    if geometry.geom_type.endswith("Polygon"):
        return shapely.MultiPolygon([piece for piece in merged if piece.geom_type == "Polygon"])
    if geometry.geom_type.endswith("LineString"):
        return shapely.MultiLineString([piece for piece in merged if piece.geom_type == "LineString"])
    return shapely.MultiPoint(merged)


def _jumps(geometry: BaseGeometry) -> bool:
    for part in shapely.get_parts(geometry):
        for line in _lines(part):
            x = shapely.get_coordinates(line)[:, 0]
            steps = np.abs(np.diff(x))
            # From one end of the world to the other along its edge is how boxes around the world are drawn.
            if ((steps > HALF) & ~((np.abs(x[:-1]) >= HALF) & (np.abs(x[1:]) >= HALF))).any():
                return True
    return False


def _lines(part: BaseGeometry) -> list[BaseGeometry]:
    if isinstance(part, shapely.Polygon):
        return [part.exterior, *part.interiors]
    return [part] if part.geom_type == "LineString" else []


def _cut_part(part: BaseGeometry) -> BaseGeometry:
    if isinstance(part, shapely.Point):
        x = (part.x + HALF) % WHOLE - HALF
        return shapely.Point(HALF if x == -HALF and part.x > 0 else x, part.y)
    whole = _unwrapped(part)
    if whole.geom_type == "Polygon" and not whole.is_valid:
        whole = shapely.make_valid(whole)
    west, _, east, _ = whole.bounds
    pieces = []
    first = int(np.floor((west + HALF) / WHOLE))
    last = int(np.ceil((east - HALF) / WHOLE))
    for turn in range(first, max(first, last) + 1):
        window = shapely.box(turn * WHOLE - HALF, WORLD_SOUTH, turn * WHOLE + HALF, WORLD_NORTH)
        piece = shapely.intersection(whole, window)
        if not piece.is_empty:
            pieces += list(shapely.get_parts(affinity.translate(piece, xoff=-turn * WHOLE)))
    return shapely.GeometryCollection(pieces)


def _unwrapped(part: BaseGeometry) -> BaseGeometry:
    """Without jumps: each vertex is within 180 degrees of the one before it."""
    if isinstance(part, shapely.Polygon):
        exterior = _follow(shapely.get_coordinates(part.exterior))
        middle = exterior[:, 0].mean()
        holes = [_beside(_follow(shapely.get_coordinates(ring)), middle) for ring in part.interiors]
        return shapely.Polygon(exterior, holes)
    return shapely.LineString(_follow(shapely.get_coordinates(part)))


def _follow(coordinates: np.ndarray) -> np.ndarray:
    x = coordinates[:, 0]
    turns = np.concatenate([[0.0], np.cumsum(-np.round(np.diff(x) / WHOLE))])
    result = coordinates.copy()
    result[:, 0] = x + turns * WHOLE
    return result


def _beside(ring: np.ndarray, middle: float) -> np.ndarray:
    """A hole lies in its polygon, not a turn of the world away."""
    ring[:, 0] += WHOLE * np.round((middle - ring[:, 0].mean()) / WHOLE)
    return ring
