"""COGs of unusual rasters."""

import numpy as np
import pytest
import rasterio

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.cog_files import CogOptions, CogProfile, write_cog
from tests.handlers.raster.rasters import Bench, hills, read, write_raster


@pytest.mark.parametrize(("height", "width"), [(5000, 1), (1, 5000), (5000, 2), (5000, 3)])
def test_a_raster_may_be_a_line(bench: Bench, height: int, width: int) -> None:
    target = bench.folder / "out.tif"
    with rasterio.open(write_raster(bench.folder / "in.tif", hills(height, width))) as dataset:
        layout = write_cog(dataset, target, bench.folder, CogOptions())
    assert layout.overviews == [2, 4, 8, 16]
    np.testing.assert_array_equal(read(target), hills(height, width))
    assert read(target, overview_level=3).size == -(-5000 // 16)


@pytest.mark.parametrize("profile", [CogProfile.JPEG, CogProfile.WEBP])
def test_classes_with_a_palette_are_no_picture(bench: Bench, profile: CogProfile) -> None:
    path = write_raster(bench.folder / "in.tif", hills(64, 64, dtype="uint8"))
    with rasterio.open(path, "r+") as dataset:
        dataset.write_colormap(1, {0: (1, 2, 3, 255), 7: (200, 100, 50, 255)})
    with (
        rasterio.open(path) as dataset,
        pytest.raises(NonRetryableError, match=f"profile {profile} .* palette.*: choose deflate or zstd"),
    ):
        write_cog(dataset, bench.folder / "out.tif", bench.folder, CogOptions(profile=profile))
