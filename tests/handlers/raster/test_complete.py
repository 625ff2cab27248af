"""raster.process_complete: three steps in one task, which goes on after the last one that was saved."""

from typing import Any

import numpy as np
import pytest
import rasterio
from rio_cogeo.cogeo import cog_validate

from rmhdag.handlers import Checkpoint, HandlerResult, NonRetryableError
from rmhdag.models.records import BlobRecord, Zone
from rmhdag.testing import HandlerBench, Recording
from tests.handlers.raster.rasters import Bench, hills, write_raster

WHEN = "2024-05-06T07:08:09Z"


def put(bench: Bench) -> dict[str, Any]:
    return {"source": bench.put(write_raster(bench.folder / "in.tif", hills(), nodata=-5)).model_dump(mode="json")}


def run(
    bench: Bench,
    params: dict[str, Any],
    *,
    resume: Checkpoint | None = None,
    until: str | None = None,
    recording: Recording | None = None,
) -> tuple[list[Checkpoint], HandlerResult | None]:
    """Checkpoints, and the result unless the run is stopped after the one called `until`."""
    recording = recording or Recording(lambda seen: [phase for phase, _ in seen.checkpoints[-1:]] == [until])
    given = {"checkpoint_seconds": 0, **params}
    done = HandlerBench.run(bench, "raster.process_complete", given, resume=resume, recording=recording)
    return done.checkpoints, None if done.stopped else done.result


def test_all_of_it_at_once(bench: Bench) -> None:
    recording = Recording()
    saved, result = run(bench, {**put(bench), "item_id": "dem", "datetime": WHEN}, recording=recording)
    assert [phase for phase, _ in saved] == ["validated", "converted"]
    assert result is not None
    output: Any = result.output
    assert output["validation"]["is_cog"] is False
    assert output["item"]["id"] == output["item_id"] == "dem"
    assert output["item"]["collection"] == "rasters"
    assert output["item"]["properties"]["datetime"] == WHEN
    assert output["item"]["assets"]["data"]["file:size"] == output["cog"]["size_bytes"]
    assert cog_validate(bench.path(output["cog"]), strict=True)[0]
    with rasterio.open(bench.path(output["cog"])) as made:
        np.testing.assert_array_equal(made.read(), hills())
    blobs = {record.role: record for record in result.records if isinstance(record, BlobRecord)}
    assert blobs.keys() == {"data", "thumbnail", "footprint"}
    assert blobs["data"].sha256 == output["cog"]["sha256"]
    assert [record.type for record in result.records].count("lineage") == 1
    said = [one.current for one in recording.progress_calls]
    assert said == sorted(said)
    assert said[-1] == 100


def test_the_output_has_the_codes_of_all_warnings(bench: Bench) -> None:
    _, result = run(bench, {**put(bench), "item_id": "dem", "nodata": -1})
    assert result is not None
    output: Any = result.output
    assert output["warning_codes"] == [warning.code for warning in result.warnings]
    assert "DATETIME_ASSUMED" in output["warning_codes"], "found after the validation"


def test_what_is_quickly_done_again_is_not_saved(bench: Bench) -> None:
    saved, result = run(bench, {**put(bench), "item_id": "dem", "datetime": WHEN, "checkpoint_seconds": 600})
    assert saved == []
    assert result is not None


@pytest.mark.parametrize("until", ["validated", "converted"])
def test_a_run_goes_on_where_another_was_killed(bench: Bench, until: str) -> None:
    params = {**put(bench), "item_id": "dem", "datetime": WHEN}
    _, whole = run(bench, params)
    assert whole is not None
    for path in (bench.folder / "storage" / "silver").rglob("*.*"):
        path.unlink()
    saved, nothing = run(bench, params, until=until)
    assert nothing is None
    written_at = dict.fromkeys(bench.files(Zone.SILVER), bench.storage.info)
    again, result = run(bench, params, resume=saved[-1])
    assert [phase for phase, _ in again] == (["converted"] if until == "validated" else [])
    assert result == whole
    assert written_at.keys() <= set(bench.files(Zone.SILVER))


def test_a_file_of_an_earlier_run_is_believed_only_if_it_is_the_same(bench: Bench) -> None:
    params = {**put(bench), "item_id": "dem", "datetime": WHEN}
    saved, _ = run(bench, params, until="converted")
    cog = bench.path(saved[-1].data["converted"]["cog"])
    whole = cog.read_bytes()
    cog.write_bytes(whole[:-1] + b"?")
    recording = Recording()
    again, result = run(bench, params, resume=saved[-1], recording=recording)
    assert [phase for phase, _ in again] == ["converted"]
    assert "it is created again" in recording.logs
    assert cog.read_bytes() == whole
    assert result is not None


def test_another_source_means_another_beginning(bench: Bench) -> None:
    by_name = {"container_name": "in", "blob_name": "in.tif", "item_id": "dem", "datetime": WHEN}
    put(bench)
    saved, _ = run(bench, by_name, until="converted")
    bench.put(write_raster(bench.folder / "in.tif", hills(400, 400)))
    again, result = run(bench, by_name, resume=saved[-1])
    assert [phase for phase, _ in again] == ["validated", "converted"]
    assert result is not None
    output: Any = result.output
    assert (output["width"], output["height"]) == (400, 400)


def test_a_raster_that_is_refused_leaves_nothing(bench: Bench) -> None:
    local = write_raster(bench.folder / "in.tif", hills(50, 50), crs=None)
    source = bench.put(local).model_dump(mode="json")
    with pytest.raises(NonRetryableError, match="coordinate system"):
        run(bench, {"source": source})
    assert bench.files(Zone.SILVER) == []
