"""A large raster through the shipped workflow with real processes, undisturbed and with workers that are killed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window
from rio_cogeo.cogeo import cog_validate

import rmhdag
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.workflow import load
from rmhdag.workflow.definition import WorkflowDefinition
from tests.faults.processes import Cluster
from tests.memory import peak_mb

SOURCE = BlobAddress(Zone.BRONZE, "incoming", "large.tif")
MOST_MEMORY_MB = 700
PATIENCE_SECONDS = 100.0
# Tiles on a side of the grid, of which a quarter holds something.
GRID = 8
FILLED = 16
pytestmark = pytest.mark.timeout(300)


class Finished(NamedTuple):
    """What an undisturbed run leaves."""

    source: Path
    storage: Storage
    result: dict[str, Any]
    memory_mb: list[float]


def params(size: int) -> dict[str, Any]:
    return {
        "container_name": SOURCE.container,
        "blob_name": SOURCE.path,
        "item_id": "large",
        "collection_id": "large-rasters",
        "datetime": "2024-05-01T00:00:00Z",
        "tiled_above_pixels": 1_000_000,
        "tile_size": size // GRID,
        "batch_size": 8,
    }


def workflow() -> WorkflowDefinition:
    file = Path(rmhdag.__file__).parent / "workflows" / "raster_processing.yaml"
    return load(file.read_text(encoding="utf-8"), file=file.name).definition


def write_large(path: Path, size: int) -> Path:
    """Block by block, and only a quarter of it: what is never written is nodata and takes no room."""
    tile = size // GRID
    profile = {
        "driver": "GTiff",
        "width": size,
        "height": size,
        "count": 1,
        "dtype": "float32",
        "crs": "EPSG:32633",
        "transform": rasterio.Affine(10, 0, 400_000, 0, -10, 5_500_000),
        "nodata": -9_999.0,
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
        "sparse_ok": True,
    }
    ramp = np.arange(tile, dtype="float32")
    with rasterio.open(path, "w", **profile) as target:
        for row, col in product(range(0, size, tile), repeat=2):
            if (row + col) // tile % 4 == 0:
                block = np.round(np.sqrt(ramp + row + 1)[:, None] * np.sqrt(ramp + col + 1)[None, :])
                target.write(block, 1, window=Window(col, row, tile, tile))
    return path


def start_worker(cluster: Cluster, storage: Path) -> subprocess.Popen[bytes]:
    return cluster.worker(
        *("--queue", "light-tasks", "--queue", "heavy-tasks"),
        RMHDAG_STORAGE=str(storage),
    )


def children_of(process: subprocess.Popen[bytes]) -> list[int]:
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def tile_files(storage: Storage) -> dict[str, str]:
    """Tiles in storage with what tells one writing from another; mosaics lie beside them under the item's name."""
    found = storage.list(Zone.SILVER, "work")
    return {info.address.path: info.etag for info in found if not info.address.path.startswith("large/")}


def contents(storage: Storage, container: str) -> dict[str, str]:
    return {info.address.path: storage.sha256(info.address) for info in storage.list(Zone.SILVER, container)}


def has_tiles(storage: Storage, count: int) -> bool:
    return len(tile_files(storage)) >= count


def result_of(cluster: Cluster, job_id: str) -> Any:
    return cluster.one("SELECT result_data FROM dag_jobs WHERE job_id = %s", job_id)


def batch_metrics(cluster: Cluster, job_id: str) -> dict[str, Any]:
    query = """
        SELECT node_id, metrics FROM dag_task_results
        WHERE job_id = %s AND status = 'completed' AND node_id LIKE 'batches\\_\\_%%'
    """
    return dict(cluster.conn.execute(query.encode(), [job_id]).fetchall())


@contextmanager
def undisturbed(cluster: Cluster, folder: Path, size: int) -> Iterator[Finished]:
    source = write_large(folder / "large.tif", size)
    storage = open_storage(StorageSettings(str(folder / "storage")), "default")
    storage.upload(source, SOURCE)
    cluster.orchestrator(RMHDAG_STORAGE=str(folder / "storage"))
    worker = start_worker(cluster, folder / "storage")
    job_id = cluster.submit(workflow(), params(size))
    assert cluster.wait_for_end(job_id, seconds=PATIENCE_SECONDS) == ["completed"], errors(cluster, job_id)
    memory = [peak_mb(pid) for pid in children_of(worker)]
    yield Finished(source, storage, result_of(cluster, job_id), memory)


@pytest.fixture(scope="module")
def finished(
    fault_server: EmbeddedPostgres, fault_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Finished]:
    """A raster of 4,096²: what killed workers are compared with."""
    folder = tmp_path_factory.mktemp("undisturbed")
    cluster = Cluster(fault_server.create_database("undisturbed", template=fault_template), folder)
    try:
        with undisturbed(cluster, folder, 4_096) as found:
            yield found
    finally:
        cluster.close()
        fault_server.drop_database("undisturbed")


def errors(cluster: Cluster, job_id: str) -> str:
    query = "SELECT node_id, error_message FROM dag_node_states WHERE job_id = %s AND status = 'failed' LIMIT 5"
    return f"{cluster.conn.execute(query.encode(), [job_id]).fetchall()}\n{cluster.logs()}"


def test_a_large_raster_becomes_a_valid_cog_within_memory(cluster: Cluster, tmp_path: Path) -> None:
    with undisturbed(cluster, tmp_path, 8_192) as finished:
        result = finished.result
    assert result["tiled"] is True
    cog = BlobRef.model_validate(result["cog"])
    path = finished.storage.gdal_path(cog.address)
    assert cog_validate(path, strict=True)[0]
    with rasterio.open(path) as after, rasterio.open(finished.source) as before:
        assert (after.crs, after.transform, after.nodata) == (before.crs, before.transform, before.nodata)
        assert after.overviews(1)
        # Stripe by stripe: the test has to stay within memory as well.
        for top in range(0, before.height, 1_024):
            window = Window(0, top, before.width, 1_024)
            assert np.array_equal(after.read(1, window=window), before.read(1, window=window))
    assert len(tile_files(finished.storage)) == FILLED, "tiles without data are noted and not written"
    assert result["item"]["id"] == "large"
    assert finished.storage.exists(BlobRef.model_validate(result["thumbnail"]).address)
    assert len(finished.memory_mb) >= 2
    assert max(finished.memory_mb) <= MOST_MEMORY_MB


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.large) for seed in range(3, 13))])
def test_killed_workers_cost_no_finished_tile_and_no_byte(
    finished: Finished, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    """Killed twice among the tiles and once in what follows, at moments that the seed chooses."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(1, FILLED - 1), 2))
    later = chance.choice(["mosaic", "cog"])
    folder = tmp_path / "storage"
    storage = open_storage(StorageSettings(str(folder)), "default")
    storage.upload(finished.source, SOURCE)
    cluster.orchestrator(RMHDAG_STORAGE=str(folder))
    worker = start_worker(cluster, folder)
    job_id = cluster.submit(workflow(), params(4_096))
    existing: dict[str, str] = {}
    done: dict[str, Any] = {}
    for moment in moments:
        cluster.wait_for(partial(has_tiles, storage, moment), f"{moment} tiles", seconds=PATIENCE_SECONDS)
        cluster.kill(worker)
        existing, done = tile_files(storage), batch_metrics(cluster, job_id)
        worker = start_worker(cluster, folder)
    cluster.wait_for(lambda: starts(cluster, job_id, later), f"{later} runs", seconds=PATIENCE_SECONDS)
    cluster.kill(worker)
    start_worker(cluster, folder)

    assert cluster.wait_for_end(job_id, seconds=PATIENCE_SECONDS) == ["completed"], errors(cluster, job_id)
    after = tile_files(storage)
    assert {path: after[path] for path in existing} == existing, "a finished tile was written again"
    told = batch_metrics(cluster, job_id)
    made = sum(metrics["made"] for node, metrics in told.items() if node not in done)
    finished_before = sum(metrics["made"] + metrics["found"] for metrics in done.values())
    assert made <= len(after) - len(existing), "a finished tile was made again"
    assert len(existing) >= finished_before
    assert contents(storage, "work") == contents(finished.storage, "work")
    assert result_of(cluster, job_id)["cog"]["sha256"] == finished.result["cog"]["sha256"]
    assert contents(storage, "cogs") == contents(finished.storage, "cogs"), "more, less or other files than undisturbed"
    cluster.check_rows()


@pytest.mark.large
@pytest.mark.timeout(3_600)
def test_a_raster_of_two_gigabytes_becomes_a_valid_cog_within_memory() -> None:
    """20,000² float32: the command ends with 1 if it takes more memory, or if the COG is not right."""
    command = Path(__file__).resolve().parents[2] / "scripts" / "large_raster.py"
    done = subprocess.run([sys.executable, command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def starts(cluster: Cluster, job_id: str, node_id: str) -> bool:
    """Claimed by a worker: whether it has got anywhere is left to chance."""
    query = "SELECT count(*) FROM dag_queue_messages WHERE job_id = %s AND node_id = %s AND worker_id IS NOT NULL"
    return bool(cluster.one(query, job_id, node_id))
