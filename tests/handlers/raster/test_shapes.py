"""Boxes, shapes and coordinate systems from outside."""

from typing import Any

import pytest

from rmhdag.handlers.raster.crs import CrsRefused, crs_name, read_crs
from rmhdag.handlers.raster.geometry import GeometryRefused, check_bbox, check_geometry

NAN, INFINITE = float("nan"), float("inf")


def polygon(*ring: tuple[float, float]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[list(position) for position in ring]]}


SQUARE = polygon((0, 0), (4, 0), (4, 4), (0, 4), (0, 0))
BOW_TIE = polygon((0, 0), (4, 4), (4, 0), (0, 4), (0, 0))


def test_box_across_the_antimeridian_is_two() -> None:
    assert check_bbox([10, -5, 20, 5]) == [(10, -5, 20, 5)]
    assert check_bbox([170, -20, -170, -10]) == [(170, -20, 180, -10), (-180, -20, -170, -10)]
    assert check_bbox([170, -20, -180, -10]) == [(170, -20, 180, -10)]
    assert check_bbox([500_000, 0, 600_000, 100], is_geographic=False) == [(500_000, 0, 600_000, 100)]


@pytest.mark.parametrize(
    ("bbox", "sentence"),
    [
        ([10, 80, 20, 100], "latitudes go from -90 to 90"),
        ([10, -100, 20, 0], "latitudes go from -90 to 90"),
        ([190, 0, 200, 10], "longitudes go from -180 to 180; a box across the antimeridian has west > east"),
        ([10, NAN, 20, 5], "give four finite numbers"),
        ([10, 0, INFINITE, 5], "give four finite numbers"),
        ([10, 0, 20], "give four finite numbers"),
        ([10, 5, 20, 5], "is empty"),
        ([10, 0, 10, 5], "is empty"),
    ],
)
def test_impossible_boxes_are_refused(bbox: list[float], sentence: str) -> None:
    with pytest.raises(GeometryRefused, match=sentence):
        check_bbox(bbox)


def test_projected_box_runs_from_west_to_east() -> None:
    with pytest.raises(GeometryRefused, match="west is greater than east"):
        check_bbox([600_000, 0, 500_000, 100], is_geographic=False)


def test_shapes_become_one_area() -> None:
    assert check_geometry(SQUARE).area == 16
    features = [{"type": "Feature", "properties": {}, "geometry": SQUARE}] * 2
    assert check_geometry({"type": "FeatureCollection", "features": features}).area == 16
    assert check_geometry(polygon((0, 0), (4e5, 0), (4e5, 4e5), (0, 0)), is_geographic=False).area == 8e10


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (BOW_TIE, r"is not valid \(Self-intersection\[2 2\]\): its outline crosses or touches itself"),
        ({"type": "Polygon", "coordinates": []}, "is empty: it has no corners"),
        ({"type": "MultiPolygon", "coordinates": []}, "is empty: it has no corners"),
        ({"type": "FeatureCollection", "features": []}, "the shape is empty"),
        (polygon((0, 0), (1, 1), (2, 2), (0, 0)), "is empty: it covers no area"),
        (polygon((0, 0), (1, 1)), "is not valid GeoJSON"),
        (polygon((0, 0), (4, 0), (4, 95), (0, 0)), "a corner at latitude 95, beyond the pole"),
        (polygon((170, 0), (190, 0), (190, 9), (170, 0)), "a corner at longitude 190"),
        (polygon((0, 0), (4, 0), (4, NAN), (0, 0)), "which is nowhere"),
        (polygon((0, 0), (INFINITE, 0), (4, 4), (0, 0)), "which is nowhere"),
        ({"type": "Point", "coordinates": [1, 2]}, "has the type Point: give a Polygon"),
        ({"type": "Polygon", "coordinates": [[["a", "b"]]]}, "its coordinates are not lists"),
        ({"type": "Feature", "geometry": None}, "has the type None"),
        ("http://127.0.0.1:9/shape.json", "has the type None"),
        (None, "has the type None"),
    ],
)
def test_impossible_shapes_are_refused(shape: Any, sentence: str) -> None:
    with pytest.raises(GeometryRefused, match=sentence):
        check_geometry(shape)


def test_deep_nesting_is_refused() -> None:
    deep: Any = [1, 2]
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(GeometryRefused, match="its coordinates are not lists"):
        check_geometry({"type": "Polygon", "coordinates": deep})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("EPSG:32633", "EPSG:32633"),
        (" epsg:4326 ", "EPSG:4326"),
        ("OGC:CRS84", "OGC:CRS84"),
        ("ESRI:54009", "ESRI:54009"),
    ],
)
def test_coordinate_systems_are_codes_or_wkt(text: str, name: str) -> None:
    crs = read_crs(text)
    assert crs_name(crs) == name
    assert read_crs(crs.to_wkt()) == crs


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("http://127.0.0.1:9/crs.wkt", "is a web address and is not fetched"),
        ("https://spatialreference.org/ref/epsg/4326/", "is a web address and is not fetched"),
        ("/etc/passwd", "is not understood: give its code"),
        ("../../etc/passwd", "is not understood: give its code"),
        ("EPSG:99999999", "there is no coordinate system 'EPSG:99999999'"),
        ("EPSG:4326+http://x", "is a web address"),
        ('GEOGCS["x"', "there is no coordinate system"),
        ("+proj=utm +zone=33 +nadgrids=/etc/passwd", "is not understood"),
        ("PROJCS[" + "x" * 20_000, "is not understood"),
        ("", "is not understood"),
    ],
)
def test_other_texts_are_not_looked_up(text: str, sentence: str) -> None:
    with pytest.raises(CrsRefused, match=sentence):
        read_crs(text)
