"""raster.clip: the pixels inside an area, where they were."""

from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.features import geometry_mask
from rasterio.transform import from_bounds, from_origin
from rasterio.warp import transform_geom

from rmhdag.handlers import NonRetryableError
from rmhdag.models.records import Zone
from tests.handlers.raster.rasters import UTM, WGS84, Bench, hills, write_raster

SQUARE = {
    "type": "Polygon",
    "coordinates": [
        [[501_000, 4_999_000], [503_000, 4_999_000], [503_000, 4_997_500], [501_000, 4_997_500], [501_000, 4_999_000]]
    ],
}
TRIANGLE = {
    "type": "Polygon",
    "coordinates": [[[501_003, 4_998_990], [503_017, 4_998_120], [501_502, 4_997_111], [501_003, 4_998_990]]],
}


def put(bench: Bench, pixels: Any, **options: Any) -> dict[str, Any]:
    return bench.put(write_raster(bench.folder / "in.tif", pixels, **options)).model_dump(mode="json")


def test_a_box_on_pixel_edges_is_a_slice(bench: Bench) -> None:
    pixels = hills(bands=2)
    output: Any = bench.output("raster.clip", source=put(bench, pixels), geometry=SQUARE, crs=UTM)
    with rasterio.open(bench.path(output["raster"])) as made:
        np.testing.assert_array_equal(made.read(), pixels[:, 100:250, 100:300])
        assert tuple(made.bounds) == (501_000, 4_997_500, 503_000, 4_999_000)
        assert made.dataset_mask().all()
    assert output["bounds"] == [501_000, 4_997_500, 503_000, 4_999_000]


@pytest.mark.parametrize("all_touched", [False, True])
def test_what_lies_outside_of_a_shape_is_nodata(bench: Bench, all_touched: bool) -> None:
    pixels = hills(1200, 1100)
    source = put(bench, pixels, nodata=-5)
    output: Any = bench.output("raster.clip", source=source, geometry=TRIANGLE, crs=UTM, all_touched=all_touched)
    with rasterio.open(bench.path(output["raster"])) as made, rasterio.open(bench.path(source)) as given:
        window = given.window(*made.bounds)
        expected = given.read(1, window=window)
        outside = geometry_mask([TRIANGLE], expected.shape, made.transform, all_touched=all_touched)
        expected[outside] = -5
        np.testing.assert_array_equal(made.read(1), expected)
        assert 0.2 < (expected == -5).mean() < 0.8


@pytest.mark.parametrize("by_mask", [False, True])
def test_another_nodata_stands_for_the_old_one_too(bench: Bench, by_mask: bool) -> None:
    pixels = hills(dtype="int16", bands=2)
    pixels[0, 120:140, 120:140] = -9999
    pixels[:, 200:220, 150:160] = -9999
    path = write_raster(bench.folder / "in.tif", pixels, nodata=None if by_mask else -9999)
    if by_mask:
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as given:
            given.write_mask(pixels[1] != -9999)
    source = bench.put(path).model_dump(mode="json")
    output: Any = bench.output("raster.clip", source=source, geometry=SQUARE, crs=UTM, nodata=0)
    expected = pixels[:, 100:250, 100:300].copy()
    if by_mask:
        expected[:, 100:120, 50:60] = 0
    else:
        expected[expected == -9999] = 0
    with rasterio.open(bench.path(output["raster"])) as made:
        np.testing.assert_array_equal(made.read(), expected)
        assert made.nodata == 0


def test_a_raster_without_nodata_gets_a_mask(bench: Bench) -> None:
    output: Any = bench.output("raster.clip", source=put(bench, hills(dtype="uint8")), geometry=TRIANGLE, crs=UTM)
    with rasterio.open(bench.path(output["raster"])) as made:
        outside = geometry_mask([TRIANGLE], made.shape, made.transform)
        np.testing.assert_array_equal(made.dataset_mask() == 0, outside)


def test_alpha_is_cleared_outside(bench: Bench) -> None:
    pixels = hills(dtype="uint8", bands=4)
    pixels[3] = 255
    source = put(bench, pixels, photometric="RGB", alpha="YES")
    output: Any = bench.output("raster.clip", source=source, geometry=TRIANGLE, crs=UTM)
    with rasterio.open(bench.path(output["raster"])) as made:
        np.testing.assert_array_equal(made.read(4) == 0, geometry_mask([TRIANGLE], made.shape, made.transform))


def test_a_shape_in_another_system_cuts_the_same_pixels(bench: Bench) -> None:
    source = put(bench, hills(), nodata=-5)
    there = transform_geom(UTM, WGS84, TRIANGLE, precision=-1)
    feature = {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry": there}]}
    by_degrees: Any = bench.output("raster.clip", source=source, geometry=feature)
    by_metres: Any = bench.output("raster.clip", source=source, geometry=TRIANGLE, crs=UTM)
    with (
        rasterio.open(bench.path(by_degrees["raster"])) as one,
        rasterio.open(bench.path(by_metres["raster"])) as other,
    ):
        assert one.bounds == other.bounds
        assert (one.read() != other.read()).mean() < 0.002


def test_a_box_across_the_antimeridian_takes_both_ends_of_the_world(bench: Bench) -> None:
    pixels = hills(180, 360)
    source = put(bench, pixels, crs=WGS84, transform=from_origin(-180, 90, 1, 1), nodata=-5)
    output: Any = bench.output("raster.clip", source=source, bbox=[170, -20, -160, 10])
    with rasterio.open(bench.path(output["raster"])) as made:
        found = made.read(1)
        np.testing.assert_array_equal(found[:, :20], pixels[0, 80:110, :20])
        np.testing.assert_array_equal(found[:, 350:], pixels[0, 80:110, 350:])
        assert (found[:, 20:350] == -5).all()


def test_a_raster_that_counts_beyond_180_is_cut_too(bench: Bench) -> None:
    pixels = hills(40, 40)
    source = put(bench, pixels, crs=WGS84, transform=from_bounds(160, -20, 200, 20, 40, 40), nodata=-5)
    output: Any = bench.output("raster.clip", source=source, bbox=[170, -10, -170, 10])
    with rasterio.open(bench.path(output["raster"])) as made:
        assert tuple(made.bounds) == (170, -10, 190, 10)
        np.testing.assert_array_equal(made.read(), pixels[:, 10:30, 10:30])


@pytest.mark.parametrize(
    ("area", "sentence"),
    [
        ({"bbox": [0, 0, 1, 1]}, "outside of the raster"),
        ({"bbox": [10, 5, 12, 5]}, "is empty"),
        ({"bbox": [10, 5, 12, 95]}, "latitudes go from"),
        ({"geometry": {"type": "Point", "coordinates": [1, 2]}}, "give a Polygon"),
        ({"geometry": {"type": "Polygon", "coordinates": []}}, "empty"),
        (
            {"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 1], [0, 0]]]}},
            "crosses or touches itself",
        ),
        ({}, "give one area"),
        ({"bbox": [0, 0, 1, 1], "geometry": SQUARE}, "give one area"),
        ({"bbox": [0, 0, 1, 1], "crs": "http://example.org/crs"}, "is not fetched"),
    ],
)
def test_an_area_that_is_none_is_refused(bench: Bench, area: dict[str, Any], sentence: str) -> None:
    source = put(bench, hills(100, 100))
    with pytest.raises(NonRetryableError, match=sentence):
        bench.run("raster.clip", source=source, **area)
    assert bench.files(Zone.SILVER) == []


def test_the_same_again_is_the_same_file(bench: Bench) -> None:
    source = put(bench, hills(), nodata=-5)
    first = bench.output("raster.clip", source=source, geometry=TRIANGLE, crs=UTM)
    assert bench.output("raster.clip", source=source, geometry=TRIANGLE, crs=UTM) == first
    assert len(bench.files(Zone.SILVER)) == 1
