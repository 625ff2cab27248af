"""Places on Earth as maps can draw them: within ±180 degrees, cut at the antimeridian, closed around the poles.

Pure geometry in degrees. Items of our own handlers are cut already; those of others may not be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

Point = tuple[float, float]
Ring = list[Point]

# Of one footprint. More do not show on a map of many.
MOST_POINTS = 400
MOST_PARTS = 500
WORLD = 360.0


class Box(NamedTuple):
    """West is never above east."""

    west: float
    south: float
    east: float
    north: float

    def meets(self, other: Box) -> bool:
        return (
            self.west <= other.east
            and other.west <= self.east
            and self.south <= other.north
            and other.south <= self.north
        )


class Shape(NamedTuple):
    """Rings by polygon, the outer one first, and the box of each polygon."""

    polygons: list[list[Ring]]
    boxes: list[Box]

    def meets(self, boxes: Iterable[Box]) -> bool:
        return any(mine.meets(other) for other in boxes for mine in self.boxes)

    def geometry(self) -> dict[str, Any]:
        return {"type": "MultiPolygon", "coordinates": self.polygons}

    def bbox(self) -> list[float]:
        """As GeoJSON has it (RFC 7946 §5.2): from the eastern end of the widest gap to its western end."""
        south, north = min(box.south for box in self.boxes), max(box.north for box in self.boxes)
        spans: list[list[float]] = []
        for box in sorted(self.boxes):
            if spans and box.west <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], box.east)
            else:
                spans.append([box.west, box.east])
        touches = spans[0][0] <= -180.0 and spans[-1][1] >= 180.0
        if len(spans) == 1 or not touches:
            return [spans[0][0], south, spans[-1][1], north]
        gaps = [(later[0] - before[1], number) for number, (before, later) in enumerate(pairwise(spans))]
        _, widest = max(gaps)
        return [spans[widest + 1][0], south, spans[widest][1], north]


def boxes_of(numbers: Any) -> list[Box]:
    """The box of a GeoJSON `bbox`, as two if it crosses the antimeridian; none if it is no box."""
    if not isinstance(numbers, list | tuple) or len(numbers) not in (4, 6) or not all(map(_is_number, numbers)):
        return []
    west, south, east, north = (*numbers[:2], *numbers[3:5]) if len(numbers) == 6 else numbers
    south, north = max(-90.0, south), min(90.0, north)
    if south > north or not -540 <= west <= 540 or not -540 <= east <= 540:
        return []
    if east - west >= WORLD:
        return [Box(-180.0, south, 180.0, north)]
    west, east = _within(west), _within(east)
    if west <= east:
        return [Box(west, south, east, north)]
    return [Box(west, south, 180.0, north), Box(-180.0, south, east, north)]


def shape_of(geometry: Any, bbox: Any = None) -> Shape | None:
    """The shape of a GeoJSON geometry; without a usable one, that of the box; None if there is neither."""
    polygons = [polygon for rings in _polygons_in(geometry) for polygon in _cut(rings)][:MOST_PARTS]
    if not polygons:
        polygons = [[ring_of(box)] for box in boxes_of(bbox)]
    if not polygons:
        return None
    most = max(4, MOST_POINTS // len(polygons))
    thinned = [[_thinned(ring, most) for ring in polygon] for polygon in polygons]
    return Shape(thinned, [_box_of(polygon[0]) for polygon in polygons])


def shape_of_boxes(bboxes: Iterable[Any]) -> Shape | None:
    """Of many items: their boxes."""
    boxes = [box for bbox in bboxes for box in boxes_of(bbox)][:MOST_PARTS]
    return Shape([[ring_of(box)] for box in boxes], boxes) if boxes else None


def ring_of(box: Box) -> Ring:
    west, south, east, north = box
    return [(west, south), (east, south), (east, north), (west, north), (west, south)]


def _polygons_in(geometry: Any) -> Iterator[list[Ring]]:
    """Rings that can be drawn; whatever is broken is left out."""
    if not isinstance(geometry, dict):
        return
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    if kind == "GeometryCollection" and isinstance(geometry.get("geometries"), list):
        for inner in geometry["geometries"][:MOST_PARTS]:
            if isinstance(inner, dict) and inner.get("type") != "GeometryCollection":
                yield from _polygons_in(inner)
    elif kind in ("Polygon", "MultiPolygon") and isinstance(coordinates, list):
        for polygon in [coordinates] if kind == "Polygon" else coordinates:
            rings = [ring for corners in polygon if (ring := _ring(corners))] if isinstance(polygon, list) else []
            if rings:
                yield rings
    elif kind in ("Point", "MultiPoint", "LineString", "MultiLineString"):
        points = list(_points_in(coordinates))
        if points:
            yield [ring_of(_box_of(points))]


def _points_in(coordinates: Any) -> Iterator[Point]:
    if _is_point(coordinates):
        yield (float(coordinates[0]), float(coordinates[1]))
    elif isinstance(coordinates, list):
        for inner in coordinates:
            yield from _points_in(inner)


def _ring(coordinates: Any) -> Ring | None:
    if not isinstance(coordinates, list) or len(coordinates) < 4 or not all(map(_is_point, coordinates)):
        return None
    return [(float(place[0]), min(90.0, max(-90.0, float(place[1])))) for place in coordinates]


def _cut(rings: list[Ring]) -> list[list[Ring]]:
    """A polygon as one or several within ±180."""
    outer = _unwrapped(rings[0])
    if all(-180.0 <= longitude <= 180.0 for longitude, _ in outer) and outer == rings[0]:
        return [rings]
    outer = _around_pole(outer)
    pieces = []
    turn = math.floor((min(longitude for longitude, _ in outer) + 180.0) / WORLD)
    while turn * WORLD - 180.0 < max(longitude for longitude, _ in outer):
        shift = turn * WORLD
        piece = _clipped([(longitude - shift, latitude) for longitude, latitude in outer])
        if len(piece) >= 4:
            pieces.append([piece])
        turn += 1
    return pieces


def _unwrapped(ring: Ring) -> Ring:
    """With continuous longitudes: over the antimeridian it runs on to 190, not to -170."""
    unwrapped = [ring[0]]
    for longitude, latitude in ring[1:]:
        before = unwrapped[-1][0]
        unwrapped.append((longitude - WORLD * round((longitude - before) / WORLD), latitude))
    return unwrapped


def _around_pole(ring: Ring) -> Ring:
    """A ring that ends a whole turn from where it began goes around a pole: it is closed along that."""
    if abs(ring[-1][0] - ring[0][0]) < WORLD / 2:
        return ring
    pole = math.copysign(90.0, sum(latitude for _, latitude in ring))
    return [*ring, (ring[-1][0], pole), (ring[0][0], pole), ring[0]]


def _clipped(ring: Ring) -> Ring:
    """To ±180, by Sutherland and Hodgman."""
    for edge, sign in ((-180.0, 1.0), (180.0, -1.0)):
        clipped: Ring = []
        for (x0, y0), (x1, y1) in pairwise(ring):
            inside, next_inside = sign * (x0 - edge) >= 0, sign * (x1 - edge) >= 0
            if inside:
                clipped.append((x0, y0))
            if inside != next_inside:
                clipped.append((edge, y0 + (y1 - y0) * (edge - x0) / (x1 - x0)))
        if not clipped:
            return []
        ring = [*clipped, clipped[0]]
    return ring if max(x for x, _ in ring) > min(x for x, _ in ring) else []


def _thinned(ring: Ring, most: int) -> Ring:
    step = -(-len(ring) // most)
    return ring if step <= 1 else [*ring[:-1:step], ring[-1]]


def _box_of(points: list[Point]) -> Box:
    longitudes, latitudes = [x for x, _ in points], [y for _, y in points]
    return Box(min(longitudes), min(latitudes), max(longitudes), max(latitudes))


def _within(longitude: float) -> float:
    return longitude if -180.0 <= longitude <= 180.0 else (longitude + 180.0) % WORLD - 180.0


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) >= 2
        and all(map(_is_number, value[:2]))
        and abs(value[0]) <= 1080
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
