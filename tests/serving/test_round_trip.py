"""From a file to a client: `vector_etl` loads a file of every format, and OGC features give back what was in it.

Stated precision: coordinates within a centimetre (1e-7 degrees and the rounding of the file), numbers to six digits
after the point, times to the second; text, dates and nulls exactly.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import shapely

from rmhdag import Client
from rmhdag.sampledata.kinds import DEFAULT_SEED
from rmhdag.sampledata.vector_files import moved, write_by_gdal, write_vector_sample
from rmhdag.sampledata.vector_kinds import DEGREES, UTM, VECTOR_SAMPLES, Format, Layer, VectorSample
from rmhdag.sampledata.vector_scenes import batches_of, crs_of
from rmhdag.serving.environment import cache_folder, find_python
from tests.cli.conftest import start_cli
from tests.cli.running import Up
from tests.conftest import require, required_postgis
from tests.store.waiting import wait_until

FEATURES = 60
DEGREES_OFF = 2e-7
KEYS = {
    Layer.DISTRICTS: "code",
    Layer.ROADS: "road_id",
    Layer.BUILDINGS: "building_id",
    Layer.PLACES: "id",
    Layer.ANTIMERIDIAN: "zone_id",
}
# Of these formats there is no sample: files of a geodatabase are never the same twice.
MADE_HERE = (
    VectorSample("places.kmz", Layer.PLACES, Format.KML, DEGREES),
    VectorSample("buildings_gdb.zip", Layer.BUILDINGS, Format.GPKG, UTM),
)
SAMPLES = (*VECTOR_SAMPLES, *MADE_HERE)
OPTIONS = {Format.CSV: {"lat_column": "lat", "lon_column": "lon"}, Format.CSV_WKT: {"wkt_column": "wkt"}}


@pytest.fixture(scope="module")
def loaded() -> Iterator[str]:
    """The URL of the services, after every file has become a table."""
    require(find_python(), "the services are not installed: scripts/setup dev installs them")
    required_postgis()
    home = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    home.chmod(0o755)
    up = Up(home, "--serve", RMHDAG_POSTGIS="1", XDG_CACHE_HOME=str(cache_folder().parent))
    try:
        words = [
            "sample-data",
            "--to-storage",
            "--kind",
            "vector",
            "--features",
            str(FEATURES),
            "--container",
            "layers",
        ]
        assert start_cli(home, *words).returncode == 0
        for file in made_here(home):
            assert start_cli(home, "storage", "put", str(file), "layers/").returncode == 0
        key = json.loads(
            start_cli(home, "keys", "create", "loader", "--scope", "submit", "--scope", "read", "--json").stdout
        )["key"]
        with Client(up.facts["url"], key) as client:
            jobs = client.submit_many(
                [{"workflow_id": "vector_etl", "input_params": inputs_of(sample)} for sample in SAMPLES]
            )
            for job in jobs:
                job.wait(timeout=100)
        yield str(up.facts["services_url"])
    finally:
        up.end()
        shutil.rmtree(home)


def made_here(folder: Path) -> Iterator[Path]:
    """A KMZ and a zipped File Geodatabase, with the same features as the samples."""
    places, buildings = MADE_HERE
    write_vector_sample(folder / "places.kml", places, FEATURES, DEFAULT_SEED)
    yield archived(folder / places.name, {"doc.kml": folder / "places.kml"})
    database = folder / "buildings.gdb"
    batches = (
        (columns, moved(shapes, crs_of(buildings.layer), buildings.crs))
        for columns, shapes in batches_of(buildings.layer, FEATURES, DEFAULT_SEED)
    )
    write_by_gdal("OpenFileGDB", TARGET_ARCGIS_VERSION="ARCGIS_PRO_3_2_OR_LATER")(database, buildings, batches)
    yield archived(folder / buildings.name, {f"{database.name}/{file.name}": file for file in database.iterdir()})


def archived(path: Path, files: dict[str, Path]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, file in files.items():
            archive.write(file, name)
    return path


def inputs_of(sample: VectorSample) -> dict[str, str]:
    place = {"container_name": "layers", "blob_name": sample.name, "table_name": table_of(sample)}
    return place | OPTIONS.get(sample.format, {})


def table_of(sample: VectorSample) -> str:
    return sample.name.replace(".", "_")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_client_reads_what_was_in_the_file(sample: VectorSample, loaded: str) -> None:
    features = read_all(f"{loaded}/features/collections/geo.{table_of(sample)}/items")
    expected = source_of(sample)
    assert len(features) == len(expected)
    for feature in features:
        row, shape = expected[plain(property_of(feature, KEYS[sample.layer]))]
        same_place(shapely.geometry.shape(feature["geometry"]), shape, sample)
        for name, value in row.items():
            if sample.format is Format.KML and name == "observed_at":
                name = "timestamp"
            assert plain(property_of(feature, name)) == plain(value), (row, name)


def read_all(url: str) -> list[dict[str, Any]]:
    def answer_to(address: str) -> httpx.Response | None:
        """The service looks for new tables every few seconds."""
        answer = httpx.get(address, params={"limit": 10_000}, timeout=40, trust_env=False)
        return None if answer.status_code == 404 else answer

    answer = wait_until(lambda: answer_to(url), 60)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["numberReturned"] == page["numberMatched"]
    return list(page["features"])


def source_of(sample: VectorSample) -> dict[Any, tuple[dict[str, Any], Any]]:
    rows = {}
    for columns, shapes in batches_of(sample.layer, FEATURES, DEFAULT_SEED):
        for row, shape in zip(columns.to_pylist(), moved(shapes, crs_of(sample.layer), DEGREES), strict=True):
            rows[plain(row[KEYS[sample.layer]])] = (row, shape)
    if sample.name == "antimeridian.gpkg":
        rows.popitem()
    return rows


def property_of(feature: dict[str, Any], name: str) -> Any:
    """Under the name that the table has for it: a user's own `id` is kept, words of SQL have a letter before them."""
    properties = feature["properties"]
    for candidate in ("source_id" if name == "id" else name, f"f_{name}"):
        if candidate in properties:
            return properties[candidate]
    raise AssertionError(f"no column {name} among {sorted(properties)}")


def plain(value: Any) -> Any:
    """Numbers, times and text in one spelling: formats without types have text for all of them."""
    if value is None or value == "" or isinstance(value, bool):
        return None if value == "" else value
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    try:
        return round(float(text), 6)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return text
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def same_place(actual: Any, expected: Any, sample: VectorSample) -> None:
    assert shapely.is_valid(actual)
    if sample.layer is Layer.ANTIMERIDIAN:
        west, _, east, _ = actual.bounds
        assert -180 <= west <= east <= 180, "cut at the antimeridian"
        if not is_wide(expected):
            actual, expected = (shapely.union_all(unwrapped(shape)) for shape in (actual, expected))
    off = shapely.hausdorff_distance(actual, expected)
    assert off <= DEGREES_OFF, f"{off} degrees away"


def is_wide(shape: Any) -> bool:
    """Wide for a good reason: no two points that follow each other are far apart."""
    return bool(np.ptp(shapely.get_coordinates(shape)[:, 0]) > 180) and not jumps(shape)


def jumps(shape: Any) -> bool:
    return bool((np.abs(np.diff(shapely.get_coordinates(shape)[:, 0])) > 180).any())


def unwrapped(shape: Any) -> Any:
    """Longitudes from 0 to 360."""
    moved_shape = shapely.transform(shape, lambda points: np.stack([points[:, 0] % 360, points[:, 1]], axis=1))
    return shapely.get_parts(moved_shape)
