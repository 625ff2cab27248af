"""raster.reproject: the same values at the same places, in another system."""

from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin
from rasterio.warp import Resampling, reproject, transform

from rmhdag.handlers import NonRetryableError
from rmhdag.models.records import Zone
from tests.handlers.raster.rasters import UTM, WGS84, Bench, hills, write_raster


def put(bench: Bench, pixels: Any, **options: Any) -> dict[str, Any]:
    return bench.put(write_raster(bench.folder / "in.tif", pixels, **options)).model_dump(mode="json")


def test_values_are_those_of_a_warp_in_one_piece(bench: Bench) -> None:
    """Windows of ours against one array of GDAL's."""
    pixels = hills(1200, 1100)
    source = put(bench, pixels, nodata=-1)
    output: Any = bench.output("raster.reproject", source=source, crs=WGS84, resampling="bilinear")
    with rasterio.open(bench.path(output["raster"])) as made:
        expected = np.full((1, made.height, made.width), -1, dtype="float32")
        with rasterio.open(bench.path(source)) as given:
            reproject(
                rasterio.band(given, 1),
                expected,
                dst_transform=made.transform,
                dst_crs=made.crs,
                dst_nodata=-1,
                resampling=Resampling.bilinear,
            )
        assert made.crs.to_epsg() == 4326
        assert made.nodata == -1
        found = made.read()
    both = (found != -1) & (expected != -1)
    assert both.mean() > 0.9
    assert ((found == -1) == (expected == -1)).mean() > 0.999
    np.testing.assert_allclose(found[both], expected[both], atol=0.2)
    assert [output["width"], output["height"]] == [found.shape[2], found.shape[1]]


@pytest.mark.parametrize(
    ("left", "pixel", "crs", "share"),
    [
        (175, 0.1, "EPSG:32601", 0.98),
        (-185, 0.1, "EPSG:32601", 0.98),
        (0, 2.5, "EPSG:6933", 1.0),
        (-0.5, 2.5, "EPSG:6933", 1.0),
        (0, 2.5, WGS84, 1.0),
    ],
)
def test_longitudes_beyond_180_are_found(bench: Bench, left: float, pixel: float, crs: str, share: float) -> None:
    """A second time as well, after the same was asked for a raster that does not go beyond: GDAL remembers."""
    pixels = hills(60, 144)
    usual = put(bench, pixels, crs=WGS84, transform=from_origin(-180, 30 * pixel, pixel, pixel), nodata=-1)
    before = bench.output("raster.reproject", source=usual, crs=crs)
    source = put(bench, pixels, crs=WGS84, transform=from_origin(left, 30 * pixel, pixel, pixel), nodata=-1)
    output: Any = bench.output("raster.reproject", source=source, crs=crs)
    with rasterio.open(bench.path(output["raster"])) as made, rasterio.open(bench.path(source)) as given:
        found = made.read(1)
        expected = np.full_like(found, -1)
        reproject(rasterio.band(given, 1), expected, dst_transform=made.transform, dst_crs=made.crs, dst_nodata=-1)
        assert made.crs.to_epsg() == int(crs.removeprefix("EPSG:"))
    assert (found != -1).mean() >= share
    assert (found == expected).mean() > 0.99
    usual = put(bench, pixels, crs=WGS84, transform=from_origin(-180, 30 * pixel, pixel, pixel), nodata=-1)
    assert bench.output("raster.reproject", source=usual, crs=crs) == before


def test_longitudes_beyond_180_with_heights_are_refused(bench: Bench) -> None:
    source = put(bench, hills(60, 144), crs="EPSG:4979", transform=from_origin(175, 3, 0.1, 0.1))
    with pytest.raises(NonRetryableError, match="longitudes of the raster go beyond 180"):
        bench.run("raster.reproject", source=source, crs="EPSG:32601")


def test_a_point_stays_where_it_is(bench: Bench) -> None:
    pixels = np.zeros((100, 100), dtype="uint8")
    pixels[40:43, 60:63] = 200
    source = put(bench, pixels, nodata=0)
    output: Any = bench.output("raster.reproject", source=source, crs="EPSG:3857", resolution=2)
    (x,), (y,) = transform(UTM, "EPSG:3857", [500_000 + 61.5 * 10], [5_000_000 - 41.5 * 10])
    with rasterio.open(bench.path(output["raster"])) as made:
        assert made.res == (2, 2)
        assert [value[0] for value in made.sample([(x, y)])] == [200]


def test_corners_of_a_raster_without_nodata_are_masked(bench: Bench) -> None:
    output: Any = bench.output("raster.reproject", source=put(bench, hills(400, 300, dtype="uint8")), crs="EPSG:3035")
    with rasterio.open(bench.path(output["raster"])) as made:
        mask = made.dataset_mask()
        assert made.count == 1
        assert made.nodata is None
        assert not mask[0, 0]
        assert mask[made.height // 2, made.width // 2]
        assert (made.read(1)[mask > 0] > 0).all()


def test_alpha_stays_alpha(bench: Bench) -> None:
    pixels = hills(200, 200, dtype="uint8", bands=4)
    pixels[3] = 255
    source = put(bench, pixels, photometric="RGB", alpha="YES")
    output: Any = bench.output("raster.reproject", source=source, crs="EPSG:3035")
    with rasterio.open(bench.path(output["raster"])) as made:
        assert made.count == 4
        assert made.read(4)[0, 0] == 0


def test_the_same_again_is_the_same_file(bench: Bench) -> None:
    source = put(bench, hills(700, 700), nodata=-1)
    first = bench.output("raster.reproject", source=source, crs=WGS84)
    assert bench.output("raster.reproject", source=source, crs=WGS84) == first
    assert len(bench.files(Zone.SILVER)) == 1


@pytest.mark.parametrize(
    ("crs", "sentence"),
    [
        ("EPSG:999999", "no coordinate system"),
        ("http://epsg.io/4326", "is not fetched"),
        ("EPSG:5773", "EPSG:5773' has no east and north: give a geographic or projected one"),
        ("EPSG:4978", "EPSG:4978' has no east and north: give a geographic or projected one"),
        ("/etc/passwd", "not understood"),
        ("+proj=utm +zone=33 +nadgrids=/etc/passwd", "not understood"),
    ],
)
def test_a_target_that_is_none_is_refused(bench: Bench, crs: str, sentence: str) -> None:
    with pytest.raises(NonRetryableError, match=sentence):
        bench.run("raster.reproject", container_name="in", blob_name="in.tif", crs=crs)


def test_a_result_beyond_all_measure_is_refused(bench: Bench) -> None:
    source = put(bench, hills(100, 100))
    with pytest.raises(NonRetryableError, match="coarser `resolution`"):
        bench.run("raster.reproject", source=source, crs=WGS84, resolution=1e-9)
    assert bench.files(Zone.SILVER) == []


def test_a_raster_off_the_globe_is_refused(bench: Bench) -> None:
    source = put(bench, hills(100, 100), transform=from_origin(9e9, 9e9, 10, 10))
    with pytest.raises(NonRetryableError, match="cannot be brought into EPSG:4326"):
        bench.run("raster.reproject", source=source, crs=WGS84)
