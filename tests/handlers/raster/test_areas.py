"""Areas of all sizes in a raster's coordinate system."""

from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.crs import CRS
from rasterio.transform import from_origin
from shapely.geometry import box

from rmhdag.handlers.raster.areas import in_raster
from tests.handlers.raster.rasters import Bench, hills, read, write_raster


def test_a_raster_clipped_to_the_world_is_whole(bench: Bench) -> None:
    source = bench.put(write_raster(bench.folder / "in.tif", hills(60, 70), nodata=-5)).model_dump(mode="json")
    output: Any = bench.output("raster.clip", source=source, bbox=[-180, -90, 180, 90])
    np.testing.assert_array_equal(read(bench.path(output["raster"])), hills(60, 70))


@pytest.mark.parametrize(
    ("crs", "west", "north", "pixel"),
    [
        ("EPSG:3857", -20_037_508.34, 20_037_508.34, 40_075_016.68 / 64),
        ("EPSG:4087", -10_018_754.17, 10_018_754.17, 20_037_508.34 / 64),
        ("EPSG:3995", -4e6, 4e6, 8e6 / 64),
        ("EPSG:3035", 2.5e6, 5.5e6, 4e6 / 64),
    ],
    ids=["mercator", "cylinder", "north-pole", "europe"],
)
def test_half_of_the_world_is_half_of_a_large_raster(
    bench: Bench, crs: str, west: float, north: float, pixel: float
) -> None:
    path = write_raster(
        bench.folder / "in.tif", hills(64, 64), crs=crs, transform=from_origin(west, north, pixel, pixel)
    )
    degrees = CRS.from_epsg(4326)
    with rasterio.open(path) as dataset:
        whole = box(*dataset.bounds).area
        halves = [in_raster(half, degrees, dataset).area for half in (box(-180, -90, 10, 90), box(10, -90, 180, 90))]
    assert min(halves) > whole / 3
    assert sum(halves) == pytest.approx(whole, rel=0.01)
