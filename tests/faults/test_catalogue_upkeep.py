"""`stac.repair_items` and `stac.rebuild` by real processes: what they bring back is what was shown."""

from pathlib import Path

import pytest

from rmhdag.catalogue.json_files import FileDamaged
from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import SAMPLES, Kind
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.workflow import load_file
from rmhdag.workflow.definition import TaskNode, TaskSpec, WorkflowDefinition
from tests.faults.processes import Cluster
from tests.faults.test_raster_ingest import QUEUES, WORKFLOW

HOMES = ("kc1", "kc2", "kc3")


def upkeep(handler: str, collection_id: str) -> WorkflowDefinition:
    spec = TaskSpec(handler=handler, queue=QUEUES["DAG_WORKER_QUEUE"], params={"collection_id": collection_id})
    return WorkflowDefinition(workflow_id="upkeep", name="Upkeep", nodes={"only": TaskNode(task=spec)})


def test_lost_and_damaged_items_come_back_as_they_were(cluster: Cluster, tmp_path: Path) -> None:
    root = f"file://{tmp_path / 'blobs'}"
    storage = open_storage(StorageSettings(root=root), "default")
    catalogue = StaticCatalogue(storage)
    cluster.orchestrator(RMHDAG_STORAGE=root, **QUEUES)
    cluster.worker(RMHDAG_STORAGE=root, GDAL_NUM_THREADS="1", **QUEUES)
    for seed, home in enumerate(HOMES):
        write_sample(tmp_path / "one.tif", SAMPLES[Kind.DEM][0], 64, seed=seed)
        storage.upload(tmp_path / "one.tif", BlobAddress(Zone.BRONZE, home, "scene.tif"))
        inputs = {"container_name": home, "collection_id": home}
        assert cluster.wait_for_end(cluster.submit(load_file(WORKFLOW).definition, inputs)) == ["completed"]
    cluster.wait_for(lambda: all(catalogue.is_listed(home, "scene") for home in HOMES), "all items are linked")
    before = [catalogue.find_item(home, "scene") for home in HOMES]

    items = tmp_path / "blobs" / "gold" / "catalogue"
    (items / "kc1" / "items" / "scene.json").write_text("{broken")
    (items / "kc2" / "items" / "scene.json").unlink()
    with pytest.raises(FileDamaged):
        catalogue.find_item("kc1", "scene")
    for handler, home in (("stac.repair_items", "kc1"), ("stac.rebuild", "kc2")):
        assert cluster.wait_for_end(cluster.submit(upkeep(handler, home))) == ["completed"]
    told = "SELECT count(*) = 0 FROM dag_catalogue_entries WHERE status = 'pending'"
    cluster.wait_for(lambda: bool(cluster.one(told)), "the catalogue is told")
    assert [catalogue.find_item(home, "scene") for home in HOMES] == before
    cluster.check_rows()
