"""Polygons that are known by their bytes become what GEOS would make of them, and no other polygon is taken for one."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.handlers.vector.geometries import Cleaned, GeometryCleaner, Parsed, Reduction
from rmhdag.handlers.vector.plain import LEAST_ROWS, Plain, plain_polygons
from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused
from rmhdag.handlers.vector.systems import ToDegrees

ROWS = 2 * LEAST_ROWS
SQUARE = ((7.0, 50.0), (7.001, 50.0), (7.001, 50.001), (7.0, 50.001), (7.0, 50.0))
NOTHING = Plain(np.array([], dtype=np.int64), np.empty((0, 4)))


def cleaner(findings: Findings) -> GeometryCleaner:
    degrees = ToDegrees("EPSG:4326", None, "a.gpkg", is_required=False, findings=findings)
    return GeometryCleaner("a.gpkg", degrees, Reduction(), findings)


def cleaned(wkb: pa.Array) -> tuple[Cleaned, Findings]:
    findings = Findings()
    return cleaner(findings).clean(wkb), findings


def cleaned_by_geos(wkb: pa.Array) -> tuple[Cleaned, Findings]:
    findings = Findings()
    geometries = shapely.from_wkb(wkb.to_numpy(zero_copy_only=False))
    return cleaner(findings).clean_parsed(Parsed(wkb, NOTHING, np.arange(len(wkb)), geometries)), findings


def assert_same(wkb: pa.Array) -> None:
    (one, one_findings), (other, other_findings) = cleaned(wkb), cleaned_by_geos(wkb)
    assert one.wkb.equals(other.wkb)
    for name in ("rows", "types", "bounds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one_findings.counts, one_findings.samples) == (other_findings.counts, other_findings.samples)


def as_wkb(geometries: Sequence[object]) -> pa.Array:
    return pa.array(shapely.to_wkb(np.array(geometries, dtype=object), byte_order=1), type=pa.binary())


def is_plain(ring: Sequence[tuple[float, float]] | np.ndarray) -> bool:
    """Whether a ring is taken for a plain polygon, among others of its length."""
    wkb = struct.pack("<BIII", 1, 3, 1, len(ring)) + np.asarray(ring, dtype="<f8").tobytes()
    rows = plain_polygons(pa.array([wkb] * ROWS, type=pa.binary())).rows
    assert len(rows) in (0, ROWS)
    return len(rows) == ROWS


coordinates = st.integers(-8, 8).map(float) | st.floats(-9, 9, allow_subnormal=False)
rings = st.lists(st.tuples(coordinates, coordinates), min_size=3, max_size=7).map(lambda ring: [*ring, ring[0]])


@given(st.lists(rings, min_size=1, max_size=12), st.sampled_from([1.0, 1e-9, 20.0, 1e-160]), st.integers(-180, 180))
def test_any_ring_ends_as_geos_would_have_it(shapes: list[list[tuple[float, float]]], scale: float, east: int) -> None:
    polygons = [shapely.Polygon([(x * scale + east, y * scale) for x, y in ring]) for ring in shapes]
    outside = any(
        polygon.bounds[0] < -540 or polygon.bounds[2] > 540 or abs(polygon.bounds[1]) > 90 for polygon in polygons
    )
    if outside or any(polygon.bounds[3] > 90 for polygon in polygons):
        return
    # Rings of one length come in runs, with others between them.
    assert_same(as_wkb([polygon for polygon in polygons for _ in range(LEAST_ROWS)]))


@given(
    st.integers(3, 38), st.floats(-7, 1), st.floats(-179, 179), st.floats(-79, 79), st.randoms(use_true_random=False)
)
def test_round_shapes_are_plain_only_if_geos_has_nothing_to_do(
    corners: int, magnitude: float, x: float, y: float, random: object
) -> None:
    radius = 10**magnitude
    angles = np.sort([random.uniform(0, 2 * np.pi) for _ in range(corners)])  # type: ignore[attr-defined]
    radii = radius * np.array([random.uniform(0.3, 1) for _ in range(corners)])  # type: ignore[attr-defined]
    points = np.column_stack([x + radii * np.cos(angles), y + radii * np.sin(angles)])
    polygon = shapely.Polygon(points)
    if is_plain(np.concatenate([points, points[:1]])):
        assert polygon.is_valid
        assert polygon.exterior.is_ccw
    assert_same(as_wkb([polygon] * ROWS))


@pytest.mark.parametrize(
    "ring",
    [
        SQUARE,
        [(7, 50), (8, 50), (9, 50), (9, 51), (7, 51), (7, 50)],
        [(0, 0), (4, 0), (4, 3), (2, 1.9), (0, 3), (0, 0)],
        [(-180, -45), (0, -45), (0, 45), (-180, 45), (-180, -45)],
    ],
    ids=["square", "vertex-on-an-edge", "notch", "half-of-the-world"],
)
def test_simple_shapes_are_plain(ring: list[tuple[float, float]]) -> None:
    assert is_plain(ring)


@pytest.mark.parametrize(
    "ring",
    [
        SQUARE[::-1],
        [(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)],
        [(np.cos(angle), np.sin(angle)) for angle in np.arange(6) * 4 * np.pi / 5],
        [*SQUARE[:-1], *SQUARE],
        [(0, 0), (100, 1e-13), (50, 0), (0, 0)],
        [(0, 0), (0, 0), (0, 0), (0, 0)],
        [(179, 0), (181, 0), (181, 1), (179, 1), (179, 0)],
        [(-100, 0), (100, 0), (100, 1), (-100, 1), (-100, 0)],
        [(0, 89), (1, 89), (1, 91), (0, 91), (0, 89)],
        [(0, 0), (np.inf, 0), (1, 1), (0, 0)],
        [(0, 0), (np.nan, 0), (1, 1), (0, 0)],
    ],
    ids=[
        "clockwise",
        "bow-tie",
        "pentagram",
        "two-laps",
        "sliver",
        "one-point",
        "across-180",
        "wide",
        "beyond-the-pole",
        "infinite",
        "no-number",
    ],
)
def test_what_needs_work_or_a_refusal_is_left_to_geos(ring: list[tuple[float, float]]) -> None:
    assert not is_plain(ring)


def test_only_little_endian_flat_polygons_without_holes_are_plain() -> None:
    square = shapely.Polygon(SQUARE)
    hole = shapely.Polygon(SQUARE, [[(7.0002, 50.0002), (7.0002, 50.0004), (7.0004, 50.0004), (7.0002, 50.0002)]])
    forms = {
        "little-endian": shapely.to_wkb(square, byte_order=1),
        "big-endian": shapely.to_wkb(square, byte_order=0),
        "with-srid": shapely.to_wkb(shapely.set_srid(square, 4326), byte_order=1, include_srid=True),
        "with-heights": shapely.to_wkb(shapely.force_3d(square, 1.0), byte_order=1),
        "with-hole": shapely.to_wkb(hole, byte_order=1),
        "line": shapely.to_wkb(square.exterior, byte_order=1),
        "multi": shapely.to_wkb(shapely.MultiPolygon([square]), byte_order=1),
        "point": shapely.to_wkb(square.centroid, byte_order=1),
        "no-bytes": b"",
    }
    found = {name: len(plain_polygons(pa.array([wkb] * ROWS, type=pa.binary())).rows) for name, wkb in forms.items()}
    assert found == {name: ROWS if name == "little-endian" else 0 for name in forms}


def test_rows_keep_their_order_and_numbers_among_others() -> None:
    square, bow_tie = shapely.Polygon(SQUARE), shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)])
    triangle = shapely.Polygon([(0, 0), (1, 0), (0, 1)])
    kinds = [square, None, bow_tie, shapely.Point(1, 2), triangle, shapely.Polygon(SQUARE[::-1])]
    wkb = as_wkb(kinds * ROWS)
    assert len(plain_polygons(wkb).rows) == 2 * ROWS
    assert_same(wkb)
    # A slice has its own first row.
    assert_same(wkb.slice(7))
    _, findings = cleaned(wkb)
    assert findings.counts == {Finding.NULL_GEOMETRY: ROWS, Finding.REPAIRED: ROWS}
    assert findings.samples[Finding.NULL_GEOMETRY][:2] == ["feature 2", "feature 8"]


def test_a_refusal_names_the_feature_of_the_file() -> None:
    square = shapely.to_wkb(shapely.Polygon(SQUARE), byte_order=1)
    collection = shapely.to_wkb(shapely.GeometryCollection([shapely.Point(1, 2)]), byte_order=1)
    wkb = pa.array([*[square] * ROWS, collection], type=pa.binary())
    with pytest.raises(VectorRefused, match=f"feature {ROWS + 1} of"):
        cleaned(wkb)
    with pytest.raises(VectorRefused, match=f"feature {ROWS + 1} of a.gpkg has a geometry that cannot be read"):
        cleaned(pa.array([*[square] * ROWS, square[:-3]], type=pa.binary()))
