"""What a raster task writes into the log of its user."""

from pathlib import Path

from tests.handlers.raster.rasters import hills, write_raster
from tests.worker.conftest import Desk, StartWorker


def test_drivers_that_gdal_does_not_have_are_no_news(desk: Desk, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker(storage_root=str(tmp_path / "blobs"))
    local = tmp_path / "blobs" / "bronze" / "in" / "one.tif"
    local.parent.mkdir(parents=True)
    write_raster(local, hills(64, 64))
    task = desk.add("raster.create_cog", {"container_name": "in", "blob_name": "one.tif"})
    assert desk.result(task).error_message is None
    assert "kept silver/cogs/" in desk.log(task)
    assert "WARNING" not in desk.log(task)
