"""Where a raster has data, as a geometry in longitude and latitude.

Hides the decimated mask, the way from pixels to degrees, the antimeridian and the poles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import shapely
from rasterio import features
from rasterio.crs import CRS
from rasterio.io import DatasetReader
from rasterio.transform import Affine
from shapely.geometry import MultiPolygon, Polygon, box, mapping, shape
from shapely.geometry.polygon import orient

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.raster.georeferencing import box_on_earth, grid_over, points_on_earth

MASK_PIXELS = 512
MOST_POINTS = 200
MOST_EDGES = 6_000
DECIMALS = 6
# A straight edge in the raster's CRS is a curve in degrees; GDAL too takes 21 points for it.
POINTS_PER_EDGE = 21
WGS84 = CRS.from_epsg(4326)


class Footprint(NamedTuple):
    """`bbox` has west > east where the data crosses the antimeridian, as GeoJSON (RFC 7946 §5.2) wants it."""

    geometry: dict[str, Any]
    bbox: list[float]


def find_footprint(dataset: DatasetReader) -> Footprint:
    """The outline of valid pixels; the outline of the raster where all are valid, or none is."""
    if dataset.crs is None:
        raise NonRetryableError(
            "the raster has no CRS, so its position is unknown; assign one (gdal_edit -a_srs)", code="CRS_MISSING"
        )
    outline = _valid_outline(dataset)
    parts = [part for polygon in _polygons(outline) for part in _to_degrees(polygon, dataset.crs)]
    if not parts:
        raise NonRetryableError(
            f"the raster's corners cannot be turned from {dataset.crs} into degrees: is this its CRS?",
            code="VALIDATION_ERROR",
        )
    return _split(parts)


def _valid_outline(dataset: DatasetReader) -> Any:
    """In the raster's CRS. Small holes and specks are removed: a footprint is for searching, not for measuring."""
    scale = max(dataset.width, dataset.height, MASK_PIXELS) / MASK_PIXELS
    height, width = max(1, round(dataset.height / scale)), max(1, round(dataset.width / scale))
    transform = dataset.transform @ Affine.scale(dataset.width / width, dataset.height / height)
    whole = shapely.transform(box(0, 0, width, height), lambda points: _apply(transform, points))
    mask = dataset.dataset_mask(out_shape=(height, width))
    if mask.all() or not mask.any():
        return whole
    for pixels in (1, 2, 4, 8, 16, 32, 64):
        simple = _outline(mask > 0, pixels)
        if simple is not None and shapely.get_num_coordinates(simple) <= MOST_POINTS:
            simple = simple.intersection(box(0, 0, width, height))
            return shapely.transform(simple, lambda points: _apply(transform, points))
    return whole


def _outline(mask: Any, pixels: int) -> Any:
    """The outline of valid pixels with this precision in pixels; None if it would have too many corners."""
    height, width = (-(-length // pixels) for length in mask.shape)
    padded = np.zeros((height * pixels, width * pixels), dtype=bool)
    padded[: mask.shape[0], : mask.shape[1]] = mask
    coarse: Any = padded.reshape(height, pixels, width, pixels).any(axis=(1, 3))
    if np.count_nonzero(np.diff(coarse, axis=0)) + np.count_nonzero(np.diff(coarse, axis=1)) > MOST_EDGES:
        return None
    shapes = features.shapes(coarse.astype(np.uint8), mask=coarse, connectivity=8, transform=Affine.scale(pixels))
    outline = shapely.union_all([shape(geometry) for geometry, _ in shapes])
    # Growing before simplifying keeps every valid pixel inside.
    simple = outline.buffer(pixels / 2, join_style="mitre").simplify(pixels / 2)
    return shapely.union_all([_without_small_holes(part, 16 * pixels**2) for part in _polygons(simple)])


def _apply(transform: Affine, points: Any) -> Any:
    x, y = points[:, 0], points[:, 1]
    return np.column_stack(
        (transform.a * x + transform.b * y + transform.c, transform.d * x + transform.e * y + transform.f)
    )


def _without_small_holes(polygon: Polygon, least_area: float) -> Polygon:
    return Polygon(polygon.exterior, [ring for ring in polygon.interiors if Polygon(ring).area >= least_area])


def _polygons(geometry: Any) -> Iterator[Polygon]:
    for part in getattr(geometry, "geoms", [geometry]):
        if part.geom_type == "Polygon" and not part.is_empty:
            yield part
        elif part.geom_type in ("MultiPolygon", "GeometryCollection"):
            yield from _polygons(part)


def _to_degrees(polygon: Polygon, crs: CRS) -> Iterator[Polygon]:
    """With continuous longitudes: a ring over the antimeridian runs on to 190, not to -170."""
    length = max(polygon.length / (4 * POINTS_PER_EDGE), 1e-12)
    exterior = _ring_in_degrees(polygon.exterior.segmentize(length), crs)
    if exterior is None:
        yield from _box_on_earth(polygon, crs)
        return
    holes = [_ring_in_degrees(ring.segmentize(length), crs) for ring in polygon.interiors]
    outer = Polygon(exterior)
    turned = shapely.make_valid(outer)
    for hole in holes:
        if hole is not None:
            turned = turned.difference(_near(shapely.make_valid(Polygon(hole)), turned))
    yield from _polygons(turned)


def _ring_in_degrees(ring: Any, crs: CRS) -> Any:
    """None for a ring that is partly off the earth, like the corners of a world map."""
    points = np.asarray(ring.coords)[:, :2]
    places = points_on_earth(crs, WGS84, points)
    if not np.isfinite(places).all():
        return None
    longitudes, latitudes = places[:, 0], np.clip(places[:, 1], -90, 90)
    if crs.is_geographic:
        # The raster's own longitudes tell the turn: a width of 350 degrees is no jump, and 190 is not -170.
        raw = np.degrees(points[:, 0] * crs.units_factor[1])
        return np.column_stack((longitudes + 360 * np.round((raw - longitudes) / 360), latitudes))
    jumps = np.diff(longitudes)
    longitudes = longitudes - 360 * np.concatenate(([0], np.cumsum(np.round(jumps / 360))))
    if abs(longitudes[-1] - longitudes[0]) > 180:
        # The ring goes around a pole: it is closed along that pole.
        pole = 90.0 if latitudes.mean() > 0 else -90.0
        longitudes = np.concatenate((longitudes, [longitudes[-1], longitudes[0]]))
        latitudes = np.concatenate((latitudes, [pole, pole]))
    return np.column_stack((longitudes, latitudes))


def _box_on_earth(polygon: Polygon, crs: CRS) -> Iterator[Polygon]:
    """The box around the part of a polygon that is on earth, found by samples and grown by one step."""
    points = grid_over(polygon.bounds)
    bounds = box_on_earth(crs, points[shapely.intersects_xy(polygon, points[:, 0], points[:, 1])])
    if bounds is not None:
        yield box(*bounds)


def _near(part: Any, other: Any) -> Any:
    """Moved by whole turns until it is next to the other."""
    turns = round((other.centroid.x - part.centroid.x) / 360)
    return _turned(part, turns)


def _turned(part: Any, turns: int) -> Any:
    return shapely.transform(part, lambda points: points + np.array([360 * turns, 0])) if turns else part


def _split(parts: list[Polygon]) -> Footprint:
    """Cut at the antimeridian, each piece within ±180."""
    together = shapely.union_all([_near(part, parts[0]) for part in parts])
    west, south, east, north = together.bounds
    together = together.simplify(max(east - west, north - south) * 1e-5)
    west, south, east, north = together.bounds
    if east - west >= 360 - 10**-DECIMALS:
        bbox = [-180.0, south, 180.0, north]
    else:
        bbox = [_within_turn(west, -180.0), south, _within_turn(east, 180.0), north]
    pieces = []
    for turn in range(int((west + 180) // 360), int((east + 180) // 360) + 1):
        piece = together.intersection(box(-180 + 360 * turn, -90, 180 + 360 * turn, 90))
        pieces.append(_turned(piece, -turn))
    whole = shapely.make_valid(shapely.set_precision(shapely.union_all(pieces), 10**-DECIMALS))
    polygons = [orient(polygon) for polygon in _polygons(whole)]
    if not polygons:
        # Smaller than what six decimals can tell: the box around it is grown to that.
        polygons = [orient(box(bbox[0] - 1e-6, south - 1e-6, bbox[2] + 1e-6, north + 1e-6))]
    geometry = polygons[0] if len(polygons) == 1 else MultiPolygon(polygons)
    return Footprint(_rounded(mapping(geometry)), [round(float(value), DECIMALS) for value in bbox])


def _within_turn(longitude: float, edge: float) -> float:
    """Into ±180; the antimeridian itself is that side's edge."""
    turned = (longitude + 180) % 360 - 180
    return edge if turned == -180 else turned


def _rounded(geometry: dict[str, Any]) -> dict[str, Any]:
    def plain(values: Iterable[Any]) -> list[Any]:
        return [round(float(v), DECIMALS) + 0.0 if isinstance(v, int | float) else plain(v) for v in values]

    return {"type": geometry["type"], "coordinates": plain(geometry["coordinates"])}
