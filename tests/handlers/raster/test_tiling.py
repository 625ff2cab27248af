"""The tiled branch as tasks: schemes from a header, batches that go on where an earlier run ended."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from rmhdag.handlers import Checkpoint
from rmhdag.handlers.raster.mosaicking import mosaic
from rmhdag.handlers.raster.tiling import generate_tiling_scheme, process_tile_batch
from rmhdag.handlers.running import Outcome
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.events import ErrorKind
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from tests.handlers.raster.test_tiles import terrain, write
from tests.handlers.test_running import Paper, run

SOURCE = BlobAddress(Zone.BRONZE, "incoming", "terrain.tif")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """With a raster of 3 × 3 tiles of 512, two of them nothing but nodata."""
    pixels = terrain("float32")
    pixels[:, :512, 512:] = -1
    opened = open_storage(StorageSettings(str(tmp_path / "storage")), "default")
    opened.upload(write(tmp_path / "terrain.tif", pixels, nodata=-1), SOURCE)
    return opened


def call(function: Any, storage: Storage, scratch: Path, params: dict[str, Any], **given: Any) -> Outcome:
    return run(function, params, scratch=scratch, open_storage=lambda: storage, **given)


def output(outcome: Outcome) -> Any:
    assert outcome.output is not None, outcome.error_message
    return json.loads(outcome.output)


def scheme_of(storage: Storage, scratch: Path, **more: Any) -> Any:
    params = {"container_name": SOURCE.container, "blob_name": SOURCE.path, "tile_size": 512, **more}
    return output(call(generate_tiling_scheme, storage, scratch, params))


def batch_params(told: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return {"source": told["source"], "scheme": told["scheme"], "batch": told["batches"][number]}


def tile_times(storage: Storage) -> dict[str, tuple[str, Any]]:
    return {info.address.path: (info.etag, info.modified_at) for info in storage.list(Zone.SILVER, "work")}


def test_a_scheme_is_made_from_a_header(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=4)
    assert (told["tile_count"], told["columns"], told["rows"]) == (9, 3, 3)
    assert told["batches"] == [{"first": 0, "count": 4}, {"first": 4, "count": 4}, {"first": 8, "count": 1}]
    assert told["source"]["sha256"] == storage.sha256(SOURCE)
    assert told["bounds"] == [500_000.0, 5_389_000.0, 513_000.0, 5_400_000.0]
    again = {"source": told["source"], "tile_size": 512, "batch_size": 4}
    assert output(call(generate_tiling_scheme, storage, tmp_path / "scratch", again)) == told


def test_a_batch_makes_its_tiles_and_notes_the_empty_ones(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=4)
    paper = Paper()
    made = output(call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told), paper=paper))
    assert [(tile["col"], tile["row"]) for tile in made["tiles"]] == [(0, 0), (0, 1)]
    assert made["empty"] == [{"col": 1, "row": 0}, {"col": 2, "row": 0}]
    assert [heard[0] for heard in paper.heard] == ["checkpoint", "progress"] * 4
    assert paper.heard[-1] == ("progress", 4, 4, "tiles")
    blob = BlobRef.model_validate(made["tiles"][1]["blob"])
    assert (blob.container, blob.sha256) == ("work", storage.sha256(blob.address))
    with (
        rasterio.open(storage.gdal_path(blob.address)) as tile,
        rasterio.open(storage.gdal_path(SOURCE)) as source,
    ):
        np.testing.assert_array_equal(tile.read(), source.read(window=((512, 1_024), (0, 512))))
    assert not list((tmp_path / "scratch").iterdir())


def test_a_second_run_finds_everything_and_does_not_open_the_source(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=1)
    params = batch_params(told)
    first = call(process_tile_batch, storage, tmp_path / "scratch", params)
    before = tile_times(storage)
    storage.delete(SOURCE)
    assert call(process_tile_batch, storage, tmp_path / "scratch", params).output == first.output
    assert tile_times(storage) == before


def test_a_run_goes_on_from_any_checkpoint(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=9)
    paper = Paper()
    whole = call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told), paper=paper)
    before = tile_times(storage)
    for _, phase, data in [heard for heard in paper.heard if heard[0] == "checkpoint"]:
        resumed = Paper()
        again = call(
            process_tile_batch,
            storage,
            tmp_path / "scratch",
            batch_params(told),
            paper=resumed,
            resume=Checkpoint(phase, data),
        )
        assert again.output == whole.output
        assert tile_times(storage) == before


def test_a_tile_that_is_gone_or_changed_is_made_again(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=9)
    paper = Paper()
    whole = output(call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told), paper=paper))
    _, phase, data = next(heard for heard in reversed(paper.heard) if heard[0] == "checkpoint")
    gone, changed, kept = (BlobRef.model_validate(tile["blob"]) for tile in whole["tiles"][:3])
    before = tile_times(storage)
    storage.delete(gone.address)
    storage.write(changed.address, b"not a tile any more")
    again = call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told), resume=Checkpoint(phase, data))
    assert output(again) == whole
    assert storage.sha256(changed.address) == changed.sha256
    assert tile_times(storage)[kept.path] == before[kept.path]


@pytest.mark.parametrize("damage", ["cut off", "zeros in the middle", "another raster", "not a raster"])
def test_a_damaged_tile_of_an_earlier_job_is_made_again(storage: Storage, tmp_path: Path, damage: str) -> None:
    """Without a checkpoint, which would have its hash."""
    told = scheme_of(storage, tmp_path / "scratch", batch_size=9)
    whole = output(call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told)))
    damaged, kept = (BlobRef.model_validate(tile["blob"]) for tile in whole["tiles"][:2])
    data = storage.read(damaged.address)
    half = len(data) // 2
    damages = {
        "cut off": data[:half],
        "zeros in the middle": data[: half - 5_000] + bytes(10_000) + data[half + 5_000 :],
        "another raster": storage.read(SOURCE),
        "not a raster": b"",
    }
    storage.write(damaged.address, damages[damage])
    before = tile_times(storage)
    assert output(call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told))) == whole
    assert storage.sha256(damaged.address) == damaged.sha256
    assert tile_times(storage)[kept.path] == before[kept.path]


def test_a_source_that_was_replaced_is_refused(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=9)
    storage.upload(write(tmp_path / "other.tif", terrain("float32", seed=8)), SOURCE)
    refused = call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told))
    assert refused.error_kind is ErrorKind.NON_RETRYABLE
    assert "was replaced; submit it again" in str(refused.error_message)
    assert not tile_times(storage)


def test_a_cancelled_batch_ends_at_its_next_tile(storage: Storage, tmp_path: Path) -> None:
    told = scheme_of(storage, tmp_path / "scratch", batch_size=9)
    paper = Paper(told_at_checkpoint="tiles")
    assert call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told), paper=paper).stopped
    assert len(tile_times(storage)) == 1


def test_a_block_that_cannot_be_read_is_the_fault_of_the_file(storage: Storage, tmp_path: Path) -> None:
    path = write(tmp_path / "terrain.tif", terrain("float32"), compress="deflate")
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 200_000] = bytes(200_000)
    storage.write(SOURCE, bytes(whole))
    told = scheme_of(storage, tmp_path / "scratch", batch_size=9)
    refused = call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told))
    assert refused.error_kind is ErrorKind.NON_RETRYABLE
    assert "bronze/incoming/terrain.tif is damaged: it cannot be read" in str(refused.error_message)
    assert str(tmp_path) not in str(refused.error_message)
    assert not list((tmp_path / "scratch").iterdir())


def test_a_tile_that_the_disk_has_no_room_for_is_not_kept(storage: Storage, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk; GDAL says nothing of what it cannot write at the end."""
    told = scheme_of(storage, tmp_path / "scratch", batch_size=1)
    first = output(call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told)))
    blob = BlobRef.model_validate(first["tiles"][0]["blob"])
    storage.delete(blob.address)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (blob.size_bytes - 1_000, before[1]))
    try:
        failed = call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert failed.error_kind is ErrorKind.HANDLER_ERROR
    assert "is the worker's disk full?" in str(failed.error_message)
    assert not tile_times(storage)


def test_the_batches_together_are_the_raster(storage: Storage, tmp_path: Path) -> None:
    """The fan-in's output is handed over whole, as the shipped workflow does."""
    told = scheme_of(storage, tmp_path / "scratch", batch_size=4)
    results = [
        output(call(process_tile_batch, storage, tmp_path / "scratch", batch_params(told, number)))
        for number in range(len(told["batches"]))
    ]
    params = {"results": {"results": results, "count": 3}, "scheme": told["scheme"], "source": told["source"]}
    made = BlobRef.model_validate(output(call(mosaic, storage, tmp_path / "scratch", params))["mosaic"])
    with (
        rasterio.open(storage.gdal_path(made.address)) as after,
        rasterio.open(storage.gdal_path(SOURCE)) as before,
    ):
        np.testing.assert_array_equal(after.read(), before.read())
