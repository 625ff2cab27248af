"""Cleaning of geometries, a batch at a time: from WKB in any system to valid 2D multi-geometries in degrees.

The order matters. Coordinates are transformed first: in metres everything would be wider than 180 degrees. Cutting at
the antimeridian comes before the repair, because both the transformation and the cut can make a geometry invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import shapely
from shapely.geometry.base import BaseGeometry

from rmhdag.handlers.vector.antimeridian import crossing, cut
from rmhdag.handlers.vector.layers import NO_ROWS
from rmhdag.handlers.vector.multi import MULTI, POLYGON, multi_wkb, oriented, with_head
from rmhdag.handlers.vector.plain import Plain, plain_polygons
from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused
from rmhdag.handlers.vector.systems import ToDegrees

MOST_DEGREES = 540.0
HAIR = 1e-6
COLLECTION = 7
LEAST_PLAIN_SHARE = 0.1
DIMENSION = {0: 0, 1: 1, 2: 1, 3: 2, 4: 0, 5: 1, 6: 2}


class Group(StrEnum):
    """Kinds of geometry that a table can hold; the value ends the name of its table if there are several."""

    POLYGON = "polygon"
    LINE = "line"
    POINT = "point"


GROUP_OF_TYPE = {6: Group.POLYGON, 5: Group.LINE, 4: Group.POINT}
GEOMETRY_TYPES = {Group.POLYGON: "MultiPolygon", Group.LINE: "MultiLineString", Group.POINT: "MultiPoint"}


@dataclass(frozen=True)
class Reduction:
    """Fewer vertices, if asked for: a tolerance in degrees, and a grid."""

    tolerance: float | None = None
    preserve_topology: bool = True
    grid: float | None = None

    @property
    def is_needed(self) -> bool:
        return self.tolerance is not None or self.grid is not None


class Parsed(NamedTuple):
    """The WKB of a batch, the rows that stay as they are, and the geometries of the other rows. `reported`: rows that
    need no warning if they have none.
    """

    wkb: pa.Array
    plain: Plain
    rows: np.ndarray
    geometries: np.ndarray
    reported: np.ndarray = NO_ROWS


class Cleaned(NamedTuple):
    """WKB of the features that stay, their numbers in the batch, and the kind of each."""

    wkb: pa.Array
    rows: np.ndarray
    types: np.ndarray
    bounds: np.ndarray


@dataclass
class Vertices:
    before: int = 0
    after: int = 0


class GeometryCleaner:
    """One per layer. Features are numbered through all batches, for messages."""

    def __init__(self, name: str, to_degrees: ToDegrees, reduction: Reduction, findings: Findings) -> None:
        self._name = name
        self._to_degrees = to_degrees
        self._reduction = reduction
        self._findings = findings
        self._first = 1
        self._looks_for_plain = not to_degrees.is_needed and not reduction.is_needed
        self.vertices = Vertices()

    def clean(self, wkb: pa.Array) -> Cleaned:
        return self.clean_parsed(self.parse(wkb, self._first))

    def clean_parsed(self, parsed: Parsed) -> Cleaned:
        """Batches in the order of the file."""
        rest = self._clean_rest(parsed)
        self._first += len(parsed.wkb)
        plain = parsed.plain
        if not len(plain.rows):
            return rest
        source = parsed.wkb if len(plain.rows) == len(parsed.wkb) else parsed.wkb.take(pa.array(plain.rows))
        clean = Cleaned(with_head(source, POLYGON), plain.rows, np.full(len(plain.rows), MULTI[POLYGON]), plain.bounds)
        return _in_order(clean, rest) if len(rest.rows) else clean

    def _clean_rest(self, parsed: Parsed) -> Cleaned:
        """What GEOS has read."""
        original = parsed.geometries
        used = np.flatnonzero(~(shapely.is_missing(original) | shapely.is_empty(original)))
        self._count_missing(np.setdiff1d(np.delete(parsed.rows, used), parsed.reported))
        rows = parsed.rows[used]
        geometries = original[used]
        self._refuse_collections(geometries, rows)
        geometries = self._in_degrees(self._flat(geometries), rows)
        geometries = self._cut(geometries)
        geometries, places = self._repaired(geometries)
        if self._reduction.is_needed:
            geometries, again = self._reduced(geometries)
            places = places[again]
        rows = rows[places]
        geometries = oriented(geometries)
        types = shapely.get_type_id(geometries)
        source = parsed.wkb if len(rows) == len(parsed.wkb) else parsed.wkb.take(pa.array(rows))
        wkb = multi_wkb(geometries, source, original[used[places]])
        return Cleaned(wkb, rows, np.array([MULTI[type_id] for type_id in range(7)])[types], shapely.bounds(geometries))

    def parse(self, wkb: pa.Array, first: int, reported: np.ndarray = NO_ROWS) -> Parsed:
        """In the order of the file, perhaps by another thread. `first` is the number of the first feature."""
        wkb = wkb.cast(pa.binary())
        plain = plain_polygons(wkb if self._looks_for_plain else wkb.slice(0, 0))
        rows = np.delete(np.arange(len(wkb)), plain.rows)
        # A layer of other geometries is not searched in vain to its end.
        self._looks_for_plain &= len(plain.rows) >= LEAST_PLAIN_SHARE * len(wkb)
        values = (wkb.take(pa.array(rows)) if len(plain.rows) else wkb).to_numpy(zero_copy_only=False)
        try:
            return Parsed(wkb, plain, rows, np.atleast_1d(shapely.from_wkb(values)), reported)
        except NotImplementedError:
            curved = [value is not None and _is_curved(value) for value in values]
            raise VectorRefused(
                f"feature {first + rows[curved.index(True)]} of {self._name} is curved: write it with straight lines, "
                "for example with ogr2ogr -nlt CONVERT_TO_LINEAR.",
                code="VECTOR_GEOMETRY_INVALID",
            ) from None
        except (shapely.errors.GEOSException, TypeError, ValueError):
            geometries = np.atleast_1d(shapely.from_wkb(values, on_invalid="ignore"))
            broken = [
                value is not None and geometry is None for value, geometry in zip(values, geometries, strict=True)
            ]
            raise VectorRefused(
                f"feature {first + rows[broken.index(True)]} of {self._name} has a geometry that cannot be read: "
                "export it again.",
                code="VECTOR_GEOMETRY_INVALID",
            ) from None

    def _refuse_collections(self, geometries: np.ndarray, rows: np.ndarray) -> None:
        mixed = shapely.get_type_id(geometries) == COLLECTION
        if mixed.any():
            number = self._first + int(rows[int(np.argmax(mixed))])
            raise VectorRefused(
                f"feature {number} of {self._name} is a GeometryCollection: explode it into its parts, or split the "
                "layer by kind of geometry.",
                code="VECTOR_MIXED_GEOMETRY",
            )

    def _flat(self, geometries: np.ndarray) -> np.ndarray:
        high = shapely.has_z(geometries) | shapely.has_m(geometries)
        if high.any():
            self._findings.add(Finding.HEIGHTS_DROPPED, "heights and measures are left out", int(high.sum()))
            geometries = shapely.force_2d(geometries)
        return geometries

    def _in_degrees(self, geometries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self._to_degrees.is_needed:
            geometries = shapely.transform(geometries, self._to_degrees.transform)
        bounds = shapely.bounds(geometries)
        finite = np.atleast_1d(np.isfinite(bounds).all(axis=1))
        if not finite.all():
            self._refuse_place(
                rows,
                ~finite,
                "REPROJECTION_FAILED" if self._to_degrees.is_needed else "VECTOR_COORDINATE_ERROR",
                "has coordinates that are no place on earth",
            )
        outside = (
            (bounds[:, 0] < -MOST_DEGREES)
            | (bounds[:, 2] > MOST_DEGREES)
            | (bounds[:, 1] < -90 - HAIR)
            | (bounds[:, 3] > 90 + HAIR)
        )
        if outside.any():
            place = bounds[int(np.argmax(outside))]
            if self._to_degrees.is_assumed:
                raise VectorRefused(
                    f"{self._name} names no coordinate system, and its coordinates are not degrees ({place[0]:g}, "
                    f"{place[1]:g}): name the system in crs.",
                    code="CRS_MISSING",
                )
            self._refuse_place(
                rows, outside, "VECTOR_COORDINATE_ERROR", f"lies at {place[0]:g}, {place[1]:g}, which is not on earth"
            )
        return geometries

    def _refuse_place(self, rows: np.ndarray, mask: np.ndarray, code: str, words: str) -> None:
        number = self._first + int(rows[int(np.argmax(mask))])
        raise VectorRefused(
            f"feature {number} of {self._name} {words}: is its coordinate system ({self._to_degrees.label}) right, and "
            "are the axes in the right order?",
            code=code,
        )

    def _cut(self, geometries: np.ndarray) -> np.ndarray:
        mask = crossing(geometries)
        if not mask.any():
            return geometries
        geometries = geometries.copy()
        for place in np.flatnonzero(mask):
            geometries[place] = cut(geometries[place])
        self._findings.add(Finding.ANTIMERIDIAN, "features across 180 degrees are cut there", int(mask.sum()))
        return geometries

    def _repaired(self, geometries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        invalid = np.flatnonzero(~shapely.is_valid(geometries))
        if not len(invalid):
            return geometries, np.arange(len(geometries))
        geometries = geometries.copy()
        repaired = shapely.make_valid(geometries[invalid], method="structure", keep_collapsed=True)
        lost = 0
        for place, geometry in zip(invalid, repaired, strict=True):
            wanted_dimension = DIMENSION[int(shapely.get_type_id(geometries[place]))]
            part = _of_dimension(geometry, wanted_dimension)
            lost += len(_exploded(geometry).geoms) > len(_exploded(part).geoms)
            geometries[place] = part
        self._findings.add(Finding.REPAIRED, "invalid geometries were repaired", len(invalid))
        self._findings.add(
            Finding.PARTS_DROPPED, "parts of another kind, which the repair has made, are left out", int(lost)
        )
        return self._without_empty(geometries)

    def _without_empty(self, geometries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.flatnonzero(~shapely.is_empty(geometries))
        self._findings.add(
            Finding.COLLAPSED, "features of which nothing is left are left out", len(geometries) - len(places)
        )
        return geometries[places], places

    def _reduced(self, geometries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.vertices.before += int(shapely.get_num_coordinates(geometries).sum())
        if self._reduction.tolerance is not None:
            geometries = shapely.simplify(
                geometries, self._reduction.tolerance, preserve_topology=self._reduction.preserve_topology
            )
        if self._reduction.grid is not None:
            geometries = shapely.set_precision(geometries, self._reduction.grid)
        geometries, places = self._without_empty(geometries)
        geometries, again = self._repaired(geometries)
        self.vertices.after += int(shapely.get_num_coordinates(geometries).sum())
        return geometries, places[again]

    def _count_missing(self, rows: np.ndarray) -> None:
        samples = (f"feature {self._first + int(row)}" for row in rows)
        self._findings.add(Finding.NULL_GEOMETRY, "features without a geometry are left out", len(rows), samples)


def _in_order(clean: Cleaned, rest: Cleaned) -> Cleaned:
    """Both together, in the order of the file."""
    rows, types, bounds = (np.concatenate(pair) for pair in zip(clean[1:], rest[1:], strict=True))
    order = np.argsort(rows)
    wkb = pa.concat_arrays([clean.wkb, rest.wkb]).take(pa.array(order))
    return Cleaned(wkb, rows[order], types[order], bounds[order])


def _is_curved(wkb: bytes) -> bool:
    try:
        shapely.from_wkb(wkb, on_invalid="ignore")
    except NotImplementedError:
        return True
    return False


def _of_dimension(geometry: BaseGeometry, dimension: int) -> BaseGeometry:
    """The parts of a repaired geometry that have the dimension of the original."""
    if shapely.get_type_id(geometry) != COLLECTION and DIMENSION[int(shapely.get_type_id(geometry))] == dimension:
        return geometry
    parts: list[Any] = [part for part in _exploded(geometry).geoms if shapely.get_dimensions(part) == dimension]
    make = (shapely.MultiPoint, shapely.MultiLineString, shapely.MultiPolygon)[dimension]
    return make(parts)


def _exploded(geometry: BaseGeometry) -> shapely.GeometryCollection:
    """All simple parts, however deep they are."""
    parts = list(shapely.get_parts(geometry))
    while any(hasattr(part, "geoms") for part in parts):
        parts = [piece for part in parts for piece in shapely.get_parts(part)]
    return shapely.GeometryCollection([part for part in parts if not part.is_empty])
