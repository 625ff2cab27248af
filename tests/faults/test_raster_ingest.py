"""`raster_ingest` by real processes: a container of many kinds of rasters becomes a catalogue."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from stac_pydantic import Item as IndependentItem

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.handlers.stac.validation import find_faults
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import SAMPLES, Kind
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.workflow import load_file
from tests.faults.processes import Cluster
from tests.handlers.raster.hostile_files import nan_nodata
from tests.handlers.raster.rasters import write_raster

WORKFLOW = Path(__file__).resolve().parents[2] / "src" / "rmhdag" / "workflows" / "raster_ingest.yaml"
QUEUES = {"DAG_WORKER_QUEUE": "light-tasks", "WORKER_QUEUE": "heavy-tasks"}


def test_a_container_becomes_a_collection(cluster: Cluster, tmp_path: Path) -> None:
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    names = []
    for sample in (one for samples in SAMPLES.values() for one in samples):
        write_sample(tmp_path / sample.name, sample, 128, seed=3)
        storage.upload(tmp_path / sample.name, BlobAddress(Zone.BRONZE, "survey", sample.name))
        names.append(sample.name.removesuffix(".tif"))
    storage.write(BlobAddress(Zone.BRONZE, "survey", "broken.tif"), b"II*\0")
    definition = load_file(WORKFLOW).definition
    cluster.orchestrator(RMHDAG_STORAGE=root, **QUEUES)
    cluster.worker(RMHDAG_STORAGE=root, GDAL_NUM_THREADS="1", **QUEUES)
    inputs = {"container_name": "survey", "collection_id": "survey", "license": "CC0-1.0"}

    strict = cluster.submit(definition, {**inputs, "pattern": "[bd]*.tif"})
    assert cluster.wait_for_end(strict) == ["failed"]
    told = cluster.one("SELECT error_message FROM dag_jobs WHERE job_id = %s", strict)
    assert "1 of 3 files failed" in told
    assert StaticCatalogue(storage).collection_ids() == [], "nothing is published"

    lenient = cluster.submit(definition, {**inputs, "most_failed_percent": 10})
    assert cluster.wait_for_end(lenient) == ["completed"]
    result = cluster.one("SELECT result_data FROM dag_jobs WHERE job_id = %s", lenient)
    assert (result["registered"], result["failed"], result["next_after"]) == (12, 1, None)
    assert "broken.tif" in result["failures"][0]["error"]

    catalogue = StaticCatalogue(storage)
    cluster.wait_for(lambda: len(list(catalogue.items("survey"))) == 12, "the catalogue shows all items")
    items = [item for _, item in catalogue.items("survey") if item is not None]
    assert sorted(item["id"] for item in items) == sorted(names)
    for item in items:
        assert find_faults(item) == []
        IndependentItem.model_validate(item)
        assert all(storage.exists(storage.address_of(asset["href"])) for asset in item["assets"].values())
    cluster.wait_for(lambda: all(catalogue.is_listed("survey", name) for name in names), "all items are linked")
    codes = {item["properties"]["proj:code"] for item in items}
    assert codes == {"EPSG:32632", "EPSG:32733", "EPSG:4326", "EPSG:3857", "EPSG:3031", "EPSG:3832"}
    over_the_antimeridian = next(item for item in items if item["id"] == "antimeridian")
    assert over_the_antimeridian["bbox"][0] > over_the_antimeridian["bbox"][2]
    collection = catalogue.find_collection("survey")
    assert collection is not None
    assert collection["license"] == "CC0-1.0"
    assert set(collection["summaries"]["proj:code"]) == codes
    cluster.check_rows()


def test_the_remedy_for_a_wrong_nodata_helps_and_huge_values_are_no_obstacle(cluster: Cluster, tmp_path: Path) -> None:
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    nan_nodata(tmp_path / "wrong.tif")
    write_raster(tmp_path / "huge.tif", np.full((64, 64), 2**63 + 2**40, "uint64"))
    for name in ("wrong.tif", "huge.tif"):
        storage.upload(tmp_path / name, BlobAddress(Zone.BRONZE, "survey", name))
    cluster.orchestrator(RMHDAG_STORAGE=root, **QUEUES)
    cluster.worker(RMHDAG_STORAGE=root, GDAL_NUM_THREADS="1", **QUEUES)
    one = {"container_name": "survey", "blob_name": "wrong.tif", "item_id": "wrong"}
    processing = load_file(WORKFLOW.with_name("raster_processing.yaml")).definition
    refused = cluster.submit(processing, one)
    assert cluster.wait_for_end(refused) == ["failed"]
    assert "the parameter `nodata`" in cluster.one("SELECT error_message FROM dag_jobs WHERE job_id = %s", refused)
    mended = cluster.submit(processing, {**one, "nodata": 0})
    whole = {"container_name": "survey", "collection_id": "survey", "nodata": 0}
    ingested = cluster.submit(load_file(WORKFLOW).definition, whole)
    assert cluster.wait_for_end(mended, ingested) == ["completed"] * 2
    warned = cluster.one("SELECT result_data FROM dag_jobs WHERE job_id = %s", ingested)["warned"]
    warnings = cluster.one("SELECT warnings FROM dag_jobs WHERE job_id = %s", ingested)
    assert {code: len(items) for code, items in warned.items()} == {one["code"]: one["count"] for one in warnings}
    assert sorted(warned["DATETIME_ASSUMED"]) == ["huge", "wrong"]


def test_orchestrators_that_are_killed_while_they_publish_lose_and_double_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Twice among the results, and once more while the catalogue is told."""
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    names = {f"file-{number}" for number in range(8)}
    for number, name in enumerate(sorted(names)):
        write_sample(tmp_path / "one.tif", SAMPLES[Kind.DEM][0], 64, seed=number)
        storage.upload(tmp_path / "one.tif", BlobAddress(Zone.BRONZE, "survey", f"{name}.tif"))
    orchestrator = cluster.orchestrator(RMHDAG_STORAGE=root, **QUEUES)
    cluster.worker(RMHDAG_STORAGE=root, GDAL_NUM_THREADS="1", **QUEUES)
    inputs = {"container_name": "survey", "collection_id": "survey"}
    job_id = cluster.submit(load_file(WORKFLOW).definition, inputs)

    def published(table: str) -> int:
        found: int = cluster.one(f"SELECT count(*) FROM {table} WHERE job_id = %s", job_id)
        return found

    for moment in (2, 10):
        cluster.wait_for(partial(at_least, published, moment), f"{moment} files are recorded")
        cluster.kill(orchestrator)
        orchestrator = cluster.orchestrator(RMHDAG_STORAGE=root, **QUEUES)
    assert cluster.wait_for_end(job_id) == ["completed"]
    cluster.kill(orchestrator)
    assert published("dag_catalogue_entries") == len(names) + 1, "items and their collection, with the last node"
    cluster.orchestrator(RMHDAG_STORAGE=root, **QUEUES)

    catalogue = StaticCatalogue(storage)
    cluster.wait_for(lambda: all(catalogue.is_listed("survey", name) for name in names), "all items are linked")
    items = [item for _, item in catalogue.items("survey") if item is not None]
    assert sorted(item["id"] for item in items) == sorted(names)
    hrefs = [storage.address_of(asset["href"]) for item in items for asset in item["assets"].values()]
    recorded = cluster.conn.execute("SELECT zone, container, path FROM dag_blob_assets").fetchall()
    assert sorted(recorded) == sorted((one.zone, one.container, one.path) for one in hrefs), "each file once"
    assert published("dag_dataset_refs") == len(names)
    cluster.check_rows()


def at_least(published: Callable[[str], int], count: int) -> bool:
    return published("dag_blob_assets") >= count
