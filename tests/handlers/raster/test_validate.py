"""What raster.validate says about files that are fit to be worked on."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine, from_origin
from rio_cogeo.cogeo import cog_validate

from rmhdag.handlers import HandlerContext, load_handlers
from rmhdag.handlers.running import Outcome, run_plain
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from tests.handlers.raster.hostile_files import write_raster
from tests.handlers.raster.validating_process import Silent

ADDRESS = BlobAddress(Zone.BRONZE, "in", "one.tif")
BY_NAME = {"container_name": "in", "blob_name": "one.tif"}


CONFLICT = (
    "the nodata value 7 lies between the values of the data: pixels that really have it count as no data; give another "
    "`nodata` if they should not"
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(str(tmp_path / "storage")), "default")


def run(storage: Storage, params: dict[str, Any]) -> Outcome:
    spec = load_handlers(["rmhdag.handlers.raster.validate"]).find("raster_validate")
    assert spec is not None
    return run_plain(spec, HandlerContext[Any](Silent(), params, open_storage=lambda: storage))


def validated(storage: Storage, path: Path, **params: Any) -> dict[str, Any]:
    storage.upload(path, ADDRESS)
    outcome = run(storage, BY_NAME | params)
    assert outcome.output is not None, outcome.error_message
    found = json.loads(outcome.output)
    assert isinstance(found, dict)
    return found


def test_says_what_the_file_is(storage: Storage, tmp_path: Path) -> None:
    path = write_raster(tmp_path / "one.tif", "int16", 300, count=2, nodata=7)
    found = validated(storage, path)
    content = path.read_bytes()
    expected = {
        "crs": "EPSG:32633",
        "bounds": [500_000, 4_997_000, 503_000, 5_000_000],
        "resolution": [10, 10],
        "width": 300,
        "height": 300,
        "pixels": 90_000,
        "bands": 2,
        "dtype": "int16",
        "nodata": 7,
        "is_cog": True,
        "problems": [CONFLICT],
        "file_size_mb": round(len(content) / 1024**2, 6),
        "blob_url": storage.url(ADDRESS),
        "nodata_share_is_estimate": False,
    }
    assert {name: found[name] for name in expected} == expected
    with rasterio.open(path) as dataset:
        assert found["nodata_share"] == round(float((dataset.read(1) == 7).mean()), 6)
    source = BlobRef.model_validate(found["source"])
    assert source.address == ADDRESS
    assert (source.size_bytes, source.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_tells_a_cog_from_what_is_none(storage: Storage, tmp_path: Path) -> None:
    plain = write_raster(tmp_path / "plain.tif", size=1030)
    cog = write_raster(tmp_path / "cog.tif", size=1030, driver="COG", blocksize=256)
    found = validated(storage, plain)
    assert found["is_cog"] is False
    assert any("is not tiled" in problem for problem in found["problems"])
    assert validated(storage, cog)["is_cog"] is True
    assert cog_validate(cog, quiet=True)[0]


@pytest.mark.parametrize(
    ("crs", "transform", "bounds", "problem"),
    [
        ("EPSG:4326", (1, 0, 150, 0, -1, 32), (150, -32, -146, 32), "beyond the antimeridian"),
        ("EPSG:4326", (1, 0, 190, 0, -1, 32), (-170, -32, -106, 32), "beyond the antimeridian"),
        ("EPSG:4326", (1, 0, 10, 0, 1, -32), (10, -32, 74, 32), "from south to north"),
        ("EPSG:4326", (360 / 64, 0, -180, 0, -180 / 64, 90), (-180, -90, 180, 90), None),
        ("EPSG:3832", (50_000, 0, 2_000_000, 0, -50_000, 1_600_000), (167.966, -14.317, -163.287, 14.317), None),
        ("EPSG:3031", (1000, 0, -32_000, 0, -1000, 32_000), (-180, -90, 180, -89.584), None),
    ],
)
def test_knows_where_on_earth(
    storage: Storage,
    tmp_path: Path,
    crs: str,
    transform: tuple[float, ...],
    bounds: tuple[float, ...],
    problem: str | None,
) -> None:
    path = write_raster(tmp_path / "one.tif", crs=crs, transform=Affine(*transform))
    found = validated(storage, path)
    assert found["bounds_wgs84"] == pytest.approx(bounds, abs=0.01)
    assert any(problem in one for one in found["problems"]) if problem else found["problems"] == []


def half_empty(path: Path, size: int, **options: Any) -> Path:
    """The left half has no data."""
    profile = {"driver": "GTiff", "width": size, "height": size, "count": 1, "dtype": "float32", "crs": "EPSG:32633"}
    data = np.ones((size, size), "float32")
    data[:, : size // 2] = np.nan
    transform = from_origin(500_000, 5_000_000, 10, 10)
    with rasterio.open(path, "w", **{**profile, "transform": transform, **options}) as dataset:
        dataset.write(data, 1)
    return path


TILES = {"tiled": True, "blockxsize": 256, "blockysize": 256, "compress": "deflate"}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"nodata": float("nan"), **TILES}, id="tiles"),
        pytest.param({"nodata": float("nan"), "compress": "deflate"}, id="strips"),
        pytest.param({"nodata": float("nan"), "driver": "COG", "compress": "lzw"}, id="overviews"),
    ],
)
def test_estimates_how_much_is_missing_in_large_files(
    storage: Storage, tmp_path: Path, options: dict[str, Any]
) -> None:
    found = validated(storage, half_empty(tmp_path / "one.tif", 2304, **options))
    assert found["nodata_share_is_estimate"] is True
    assert found["nodata_share"] == pytest.approx(0.5, abs=0.05)
    assert found["nodata"] == "nan"


def test_missing_values_that_are_not_declared_are_a_problem(storage: Storage, tmp_path: Path) -> None:
    found = validated(storage, half_empty(tmp_path / "one.tif", 64))
    assert (found["nodata"], found["nodata_share"]) == (None, 0.5)
    assert found["problems"] == [
        "it has pixels that are not a number (NaN) without declaring NaN as nodata; they count as no data"
    ]


def test_value_for_no_data_can_be_given(storage: Storage, tmp_path: Path) -> None:
    path = write_raster(tmp_path / "one.tif", "uint8")
    assert validated(storage, path)["nodata_share"] == 0
    found = validated(storage, path, nodata=0)
    assert found["nodata"] == 0
    assert found["nodata_share"] == round(17 / 4096, 6)
    refused = run(storage, BY_NAME | {"nodata": -9999}).error_message
    assert refused is not None
    assert "the value -9999 means no data, but its pixels are uint8 (0 to 255)" in refused


def test_file_of_an_earlier_node_must_be_the_same(storage: Storage, tmp_path: Path) -> None:
    path = write_raster(tmp_path / "one.tif")
    source = storage.upload(path, ADDRESS).model_dump(mode="json")
    assert run(storage, {"source": source}).error_message is None
    with rasterio.open(path, "r+") as dataset:
        dataset.write(dataset.read(1) + 1, 1)
    assert storage.upload(path, ADDRESS).size_bytes == source["size_bytes"]
    refused = run(storage, {"source": source})
    assert refused.error_kind == "non_retryable"
    assert "is not the file it was when it was checked before" in str(refused.error_message)


@pytest.mark.parametrize(
    "params", [{}, {"container_name": "in"}, {**BY_NAME, "source": {"container": "a", "path": "b"}}]
)
def test_one_file_must_be_named(storage: Storage, params: dict[str, Any]) -> None:
    refused = run(storage, params)
    assert "name one file: give container_name and blob_name, or source" in str(refused.error_message)


def refused_code(storage: Storage, path: Path | None, **params: Any) -> tuple[str, bool, bool]:
    if path is not None:
        storage.upload(path, ADDRESS)
    outcome = run(storage, BY_NAME | params)
    assert outcome.error_kind == "non_retryable"
    assert outcome.error is not None
    error = json.loads(outcome.error)
    assert error["message"] == outcome.error_message
    assert error["remediation"]
    return error["code"], error["user_fixable"], error["retryable"]


def test_refusals_say_which_kind_they_are(storage: Storage, tmp_path: Path) -> None:
    def written(name: str, **profile: Any) -> Path:
        path = tmp_path / name
        shape = {"driver": "GTiff", "width": 8, "height": 8, "count": 1, "dtype": "uint8"}
        placed = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_000_000, 10, 10)}
        with rasterio.open(path, "w", **{**shape, **placed, **profile}) as dataset:
            dataset.write(np.full((1, 8, 8), 5, profile.get("dtype", "uint8")))
        return path

    assert refused_code(storage, None) == ("FILE_NOT_FOUND", True, False)
    whole = written("whole.tif")
    cases = {
        "CRS_MISSING": written("no_crs.tif", crs=None),
        "RASTER_EMPTY": written("empty.tif", nodata=5),
        "BIT_DEPTH_POLICY_VIOLATION": written("complex.tif", dtype="complex64"),
        "INVALID_FORMAT": tmp_path / "archive.tif",
        "CORRUPTED_FILE": tmp_path / "cut.tif",
    }
    cases["INVALID_FORMAT"].write_bytes(b"PK\x03\x04" + bytes(100))
    cases["CORRUPTED_FILE"].write_bytes(whole.read_bytes()[:-20])
    for code, path in cases.items():
        assert refused_code(storage, path) == (code, True, False)
    assert refused_code(storage, whole, nodata=300) == ("INVALID_PARAMETER", True, False)
    assert refused_code(storage, whole, no_such=1) == ("INVALID_PARAMETER", True, False)


@pytest.mark.parametrize(
    ("dtype", "bands", "claims"),
    [
        ("uint16", 1, {"crs": "epsg:32633"}),
        ("uint16", 1, {"crs": rasterio.crs.CRS.from_epsg(32633).to_wkt()}),
        ("uint8", 3, {"raster_type": "rgb"}),
        ("uint16", 4, {"raster_type": "nir"}),
        ("float32", 5, {"raster_type": "multispectral"}),
        ("uint8", 1, {"raster_type": "categorical"}),
        ("float32", 1, {"raster_type": "flood_depth", "crs": "EPSG:32633"}),
    ],
)
def test_what_the_order_says_may_be_true(
    storage: Storage, tmp_path: Path, dtype: str, bands: int, claims: dict[str, Any]
) -> None:
    assert validated(storage, write_raster(tmp_path / "one.tif", dtype, count=bands), **claims)["bands"] == bands


@pytest.mark.parametrize(
    ("dtype", "options", "claims", "code", "sentence"),
    [
        ("uint16", {}, {"crs": "EPSG:4326"}, "CRS_MISMATCH", "is in EPSG:32633, and the order says EPSG:4326"),
        ("uint16", {"crs": None}, {"crs": "EPSG:4326"}, "CRS_MISSING", "`gdal_edit.py -a_srs EPSG:4326`"),
        ("uint8", {"count": 4}, {"raster_type": "rgb"}, "RASTER_TYPE_MISMATCH", "has 4 bands, .* which has 3 bands"),
        ("uint8", {"count": 3}, {"raster_type": "dem"}, "RASTER_TYPE_MISMATCH", "which has 1 band: correct"),
        ("uint8", {}, {"raster_type": "multispectral"}, "RASTER_TYPE_MISMATCH", "which has at least 5 bands"),
        ("float32", {"count": 3}, {"raster_type": "rgb"}, "RASTER_TYPE_MISMATCH", "which has uint8 or uint16: correct"),
        ("float32", {}, {"raster_type": "categorical"}, "RASTER_TYPE_MISMATCH", "classes are whole numbers"),
    ],
)
def test_a_file_that_is_not_what_the_order_says_is_refused(
    storage: Storage,
    tmp_path: Path,
    dtype: str,
    options: dict[str, Any],
    claims: dict[str, Any],
    code: str,
    sentence: str,
) -> None:
    storage.upload(write_raster(tmp_path / "one.tif", dtype, **options), ADDRESS)
    refused = run(storage, BY_NAME | claims)
    assert refused.error is not None, refused.output
    assert json.loads(refused.error)["code"] == code
    assert re.search(sentence, str(refused.error_message)), refused.error_message


def test_a_raster_without_a_place_says_so(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "nowhere.tif"
    with (
        pytest.warns(rasterio.errors.NotGeoreferencedWarning),
        rasterio.open(path, "w", driver="GTiff", width=8, height=8, count=1, dtype="uint8") as dataset,
    ):
        dataset.write(np.full((1, 8, 8), 5, "uint8"))
    assert refused_code(storage, path) == ("GEOTRANSFORM_MISSING", True, False)
