"""GDAL reads straight from the store, and from nowhere else."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.errors import RasterioIOError
from rasterio.transform import from_origin

from rmhdag.storage import Storage, StorageSettings, open_storage
from tests.storage.conftest import at

# Says each request in a line; GDAL is called with Python's lock held, so this cannot be a thread.
SERVER = """
import http.server, pathlib
class Asked(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *given): super().__init__(*given, directory=r"FOLDER")
    def log_request(self, *_): pathlib.Path("FOLDER/asked").open("a").write(self.requestline + chr(10))
server = http.server.HTTPServer(("127.0.0.1", 0), Asked)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture
def raster(tmp_path: Path) -> Path:
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "width": 300, "height": 200, "count": 1, "dtype": "uint16", "crs": "EPSG:32632"}
    with rasterio.open(path, "w", transform=from_origin(500_000, 5_000_000, 10, 10), **profile) as made:
        made.write(np.arange(60_000, dtype="uint16").reshape(1, 200, 300))
    return path


@pytest.fixture
def other_server(raster: Path) -> Iterator[str]:
    code = SERVER.replace("FOLDER", str(raster.parent))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"127.0.0.1:{process.stdout.readline().strip()}"
    process.kill()
    process.communicate()


def asked(raster: Path) -> int:
    log = raster.with_name("asked")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_gdal_reads_the_blob_itself(storage: Storage, raster: Path) -> None:
    ref = storage.upload(raster, at("spaced name/ü+&.tif"))
    with (
        storage.gdal_source(ref.address) as source,
        rasterio.Env(**source.options),
        rasterio.open(source.path, driver="GTiff") as dataset,
    ):
        assert dataset.crs.to_epsg() == 32632
        assert dataset.read(1)[199, 299] == 59_999


def test_gdal_reads_nothing_else(storage: Storage, raster: Path, other_server: str) -> None:
    names = [f"/vsicurl/http://{other_server}/a.tif", f"/vsicurl?url=http://{other_server}/a.tif"]
    with rasterio.open(names[0]) as dataset:
        assert dataset.width == 300
    before = asked(raster)
    assert before > 0, "without options GDAL fetches what it is told to"
    ref = storage.upload(raster, at("a.tif"))
    beside = storage.upload(raster, at("b.tif"))
    with storage.gdal_source(ref.address) as source:
        if source.path.startswith("/vsi"):
            names.append(storage.gdal_path(beside.address))
        for name in names:
            # GDAL remembers what it has fetched; a new name is not known yet.
            with rasterio.Env(**source.options), pytest.raises(RasterioIOError):
                rasterio.open(name.replace("a.tif", "a.tif?new"))
            with rasterio.Env(**source.options), pytest.raises(RasterioIOError):
                rasterio.open(name)
    assert asked(raster) == before


@pytest.mark.parametrize(
    "name",
    [
        "/vsicurl/http://SERVER/a.tif?1",
        "/vsicurl_streaming/http://SERVER/a.tif?2",
        "/vsis3/bucket/a.tif",
        "/vsiaz/container/a.tif",
        "/vsigs/bucket/a.tif",
        "WMTS:http://SERVER/a.xml",
        "/vsigzip//vsicurl/http://SERVER/a.tif?3",
    ],
)
def test_with_folders_gdal_has_no_network_at_all(tmp_path: Path, raster: Path, other_server: str, name: str) -> None:
    storage = open_storage(StorageSettings(str(tmp_path / "root")), "default")
    ways = {"AWS_S3_ENDPOINT": other_server, "AWS_HTTPS": "NO", "AWS_VIRTUAL_HOSTING": "FALSE"}
    ways |= {"AWS_NO_SIGN_REQUEST": "YES", "GS_NO_SIGN_REQUEST": "YES", "CPL_GS_ENDPOINT": f"http://{other_server}/"}
    ways["AZURE_STORAGE_CONNECTION_STRING"] = (
        f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=Zm9v;BlobEndpoint=http://{other_server}/a;"
    )
    with rasterio.Env(**ways, **storage.gdal_options()), pytest.raises(RasterioIOError):
        rasterio.open(name.replace("SERVER", other_server))
    assert asked(raster) == 0
    with rasterio.Env(**ways), suppress(RasterioIOError):
        rasterio.open(name.replace("SERVER", other_server).replace("a.", "c.")).close()
    assert asked(raster) > 0, "the same would have been asked for without the options"
