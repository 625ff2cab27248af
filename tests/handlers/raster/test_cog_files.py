"""COGs of unusual rasters."""

import numpy as np
import pytest
import rasterio

from rmhdag.handlers.raster.cog_files import CogOptions, write_cog
from tests.handlers.raster.rasters import Bench, hills, read, write_raster


@pytest.mark.parametrize(("height", "width"), [(5000, 1), (1, 5000), (5000, 2), (5000, 3)])
def test_a_raster_may_be_a_line(bench: Bench, height: int, width: int) -> None:
    target = bench.folder / "out.tif"
    with rasterio.open(write_raster(bench.folder / "in.tif", hills(height, width))) as dataset:
        layout = write_cog(dataset, target, bench.folder, CogOptions())
    assert layout.overviews == [2, 4, 8, 16]
    np.testing.assert_array_equal(read(target), hills(height, width))
    assert read(target, overview_level=3).size == -(-5000 // 16)
