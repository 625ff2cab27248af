"""Rasters in stores that are reached over the network are opened like those on a disk, and nothing else there is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rasterio
from rasterio.errors import RasterioIOError

from rmhdag.handlers import HandlerContext, load_handlers
from rmhdag.handlers.raster.opening import RasterChanged, RasterRefused, open_raster
from rmhdag.handlers.running import run_plain
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from tests.handlers.raster.hostile_files import FILES, write_raster
from tests.handlers.raster.validating_process import Silent
from tests.storage.azurite import ACCOUNT, KEY, create_container, running_azurite
from tests.storage.s3_server import S3_OPTIONS, create_bucket, running_s3

NO_OVERVIEWS = "COG: The file is greater than 512xH or 512xW, it is recommended to include internal overviews"
ADDRESS = BlobAddress(Zone.BRONZE, "in", "terrain.tif")
# Those whose fault is in the header, and so is found by reading parts of the file.
WRONG = {
    "vrt.tif",
    "huge.tif",
    "cut-half.tif",
    "cut-end.tif",
    "cut-cog.tif",
    "empty.tif",
    "loop.tif",
    "points-to-web.tif",
}


@pytest.fixture(scope="module", params=["azure", "s3"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    if request.param == "azure":
        with running_azurite() as endpoint:
            create_container(endpoint, "rasters")
            options = {"azure_account_key": KEY, "azure_endpoint": endpoint}
            yield open_storage(StorageSettings(f"az://{ACCOUNT}/rasters", options=options), "default")
    else:
        with running_s3() as endpoint:
            create_bucket(endpoint, "rasters")
            yield open_storage(
                StorageSettings("s3://rasters", options={**S3_OPTIONS, "aws_endpoint": endpoint}), "default"
            )


def validate(storage: Storage) -> dict[str, Any]:
    spec = load_handlers(["rmhdag.handlers.raster.validate"]).find("raster.validate")
    assert spec is not None
    params = {"source": {"container": ADDRESS.container, "path": ADDRESS.path}}
    outcome = run_plain(spec, HandlerContext[Any](Silent(), params, open_storage=lambda: storage))
    assert outcome.output is not None, outcome.error_message
    found: dict[str, Any] = json.loads(outcome.output)
    return found


def test_a_store_far_away_is_no_different(storage: Storage, tmp_path: Path) -> None:
    # Its directory is at its end: GDAL and we read parts of it.
    path = write_raster(tmp_path / "terrain.tif", size=1024, tiled=True, compress="deflate")
    stored = storage.upload(path, ADDRESS)
    with open_raster(storage, stored) as dataset, rasterio.open(path) as expected:
        assert dataset.name.startswith("/vsi")
        assert (dataset.read(1) == expected.read(1)).all()
        # What is open is open; another file of the same store is closed to whoever asks GDAL for it by name.
        storage.upload(path, ADDRESS._replace(path="other.tif"))
        with pytest.raises(RasterioIOError):
            rasterio.open(dataset.name.replace("terrain.tif", "other.tif"), driver="GTiff")

    told = validate(storage)
    assert (told["bands"], told["source"]) == (1, stored.model_dump(mode="json"))
    assert told["problems"] == [NO_OVERVIEWS]

    wrong = [file for file in FILES if file.name in WRONG]
    assert len(wrong) == len(WRONG)
    for file in wrong:
        file.write(tmp_path / file.name)
        address = ADDRESS._replace(path=file.name)
        storage.upload(tmp_path / file.name, address)
        with pytest.raises(RasterRefused, match=file.sentence), open_raster(storage, address):
            raise AssertionError("it was opened")


def test_a_file_that_is_replaced_far_away_is_noticed(storage: Storage, tmp_path: Path) -> None:
    stored = storage.upload(write_raster(tmp_path / "a.tif"), ADDRESS)
    seen = []

    def read() -> None:
        with open_raster(storage, stored) as dataset:
            seen.append(dataset.read(1).max())
            storage.upload(write_raster(tmp_path / "b.tif", nodata=1), ADDRESS)

    with pytest.raises(RasterChanged, match="was replaced while it was read"):
        read()
    with open_raster(storage, ADDRESS) as dataset:
        assert dataset.nodata == 1  # nothing of the first is left in GDAL's memory
