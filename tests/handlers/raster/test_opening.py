"""Rasters from outside are opened as what they are, and only those that are whole and not too large."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from rmhdag.handlers.raster.opening import RasterChanged, RasterRefused, open_local, open_raster
from rmhdag.handlers.raster_limits import NEEDED_DRIVERS, RasterLimits
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage

ADDRESS = BlobAddress(Zone.BRONZE, "in", "terrain.tif")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(str(tmp_path / "storage")), "default")


def write_raster(path: Path, size: int = 64, value: int = 7, **options: object) -> Path:
    profile = {"driver": "GTiff", "width": size, "height": size, "count": 1, "dtype": "uint16", "crs": "EPSG:32633"}
    transform = from_origin(500_000, 5_000_000, 10, 10)
    with rasterio.open(path, "w", **{**profile, "transform": transform, **options}) as dataset:
        for band in dataset.indexes:
            dataset.write(np.full((dataset.height, dataset.width), value, dataset.dtypes[0]), band)
    return path


@pytest.fixture
def stored(tmp_path: Path, storage: Storage) -> BlobRef:
    return storage.upload(write_raster(tmp_path / "terrain.tif"), ADDRESS)


def test_opens_what_is_stored(storage: Storage, stored: BlobRef) -> None:
    for name in (ADDRESS, stored):
        with open_raster(storage, name) as dataset:
            assert (dataset.driver, dataset.width, dataset.crs.to_epsg()) == ("GTiff", 64, 32633)
            assert dataset.read(1).max() == 7


def test_opens_files_of_our_own(tmp_path: Path) -> None:
    with open_local(write_raster(tmp_path / "made.tif")) as dataset:
        assert dataset.read(1).max() == 7


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            replace(RasterLimits(), raster_max_pixels=4095),
            "terrain.tif says that it has 64 × 64 pixels, the most is 4,095 in all",
        ),
        (replace(RasterLimits(), raster_max_file_mb=0), "terrain.tif has 0 MB, the most is 0 MB"),
        (replace(RasterLimits(), raster_max_bands=0), "terrain.tif has 1 bands, the most is 0"),
        (
            replace(RasterLimits(), raster_max_decoded_mb=0),
            "terrain.tif has 0 MB when it is unpacked, the most is 0 MB",
        ),
    ],
)
def test_limits_are_kept(storage: Storage, stored: BlobRef, limits: RasterLimits, sentence: str) -> None:
    with (
        pytest.raises(RasterRefused, match=sentence),
        open_raster(storage, stored, limits=limits),
    ):
        raise AssertionError("it was opened")


def test_blocks_are_limited_unless_they_are_read_in_rows(storage: Storage, tmp_path: Path) -> None:
    limits = replace(RasterLimits(), raster_max_block_mb=1)
    write_raster(tmp_path / "a.tif", 1024, blockysize=1024)
    write_raster(tmp_path / "b.tif", 1024, blockysize=1024, compress="deflate")
    with open_local(tmp_path / "a.tif", limits=limits) as dataset:
        assert dataset.read(1).max() == 7
    with (
        pytest.raises(RasterRefused, match=r"b\.tif has blocks of 2 MB, the most is 1 MB"),
        open_local(tmp_path / "b.tif", limits=limits),
    ):
        raise AssertionError("it was opened")


def test_a_file_that_is_replaced_while_it_is_read_is_noticed(storage: Storage, stored: BlobRef, tmp_path: Path) -> None:
    other = write_raster(tmp_path / "other.tif", value=9)
    seen = []

    def read() -> None:
        with open_raster(storage, stored) as dataset:
            storage.upload(other, ADDRESS)
            seen.append(dataset.read(1).max())

    with pytest.raises(RasterChanged, match="was replaced while it was read"):
        read()
    assert seen == [7]  # still the one that was checked


def test_a_file_that_is_changed_in_its_place_is_noticed(storage: Storage, stored: BlobRef, tmp_path: Path) -> None:
    """Not by us: every write of ours makes a new file."""

    def read() -> None:
        with open_raster(storage, stored), (tmp_path / "storage" / str(ADDRESS)).open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"x")

    with pytest.raises(RasterChanged, match="was replaced while it was read"):
        read()


def test_a_file_that_was_replaced_since_it_was_named_is_refused(
    storage: Storage, stored: BlobRef, tmp_path: Path
) -> None:
    storage.upload(write_raster(tmp_path / "larger.tif", 128), ADDRESS)
    with pytest.raises(RasterRefused, match="it was replaced; submit it again"), open_raster(storage, stored):
        raise AssertionError("it was opened")


def test_what_is_not_there_is_named(storage: Storage) -> None:
    missing = BlobAddress(Zone.BRONZE, "in", "none.tif")
    with pytest.raises(RasterRefused, match=r"there is no file bronze/in/none\.tif"), open_raster(storage, missing):
        raise AssertionError("it was opened")


def test_a_child_knows_no_driver_that_it_does_not_need() -> None:
    """GDAL registers drivers once, so this takes a process."""
    program = "import rasterio\nwith rasterio.Env() as env: print(*env.drivers(), sep=',')"
    environment = {"PATH": os.environ["PATH"], **RasterLimits().as_variables()}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert set(told.stdout.strip().split(",")) <= NEEDED_DRIVERS
    assert told.stderr == ""


def test_limits_travel_by_variables() -> None:
    limits = replace(RasterLimits(), raster_max_pixels=5, gdal_threads=3, gdal_drivers="netCDF")
    variables = limits.as_variables()
    assert RasterLimits.from_variables(variables) == limits
    assert variables["GDAL_NUM_THREADS"] == "3"
    skipped = variables["GDAL_SKIP"].split(",")
    assert "HDF5" in skipped
    assert "netCDF" not in skipped
