"""What the person who ordered should know is a warning with a code; what cannot be good is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rasterio.transform import Affine, from_origin

from rmhdag.handlers.raster.findings import Finding
from rmhdag.handlers.raster.opening import RasterRefused
from tests.handlers.raster.rasters import WGS84, Bench, hills, write_raster
from tests.handlers.raster.test_complete import WHEN, run

PAGE = Path(__file__).parents[3] / "docs" / "raster-pipeline.md"


def warned(bench: Bench, local: Path, **params: Any) -> dict[str, str]:
    """Messages by code, of raster.validate."""
    result = bench.run("raster.validate", source=bench.put(local).model_dump(mode="json"), **params)
    output: Any = result.output
    assert output["warnings"] == [warning.model_dump(mode="json") for warning in result.warnings]
    assert {warning.message for warning in result.warnings} <= set(output["problems"])
    return {warning.code: warning.message for warning in result.warnings}


def partly(share: float, value: float, *, dtype: str = "float32", size: int = 100) -> Any:
    pixels = hills(size, size, dtype=dtype)
    pixels.reshape(-1)[: int(share * size * size)] = value
    return pixels


def test_a_sound_raster_has_no_warning(bench: Bench) -> None:
    assert warned(bench, write_raster(bench.folder / "in.tif", hills(100, 100), nodata=-9999)) == {}


@pytest.mark.parametrize("size", [100, 2304])
def test_an_empty_raster_is_refused(bench: Bench, size: int) -> None:
    local = write_raster(bench.folder / "in.tif", np.full((1, size, size), -9999, "float32"), nodata=-9999)
    with pytest.raises(RasterRefused, match="is empty: no pixel has data"):
        warned(bench, local)


def test_a_nearly_empty_raster_is_refused_unless_that_is_accepted(bench: Bench) -> None:
    local = write_raster(bench.folder / "in.tif", partly(0.995, 0), nodata=0)
    with pytest.raises(RasterRefused, match=r"is nearly empty: 99.50 % of its pixels .* `most_nodata_percent`"):
        warned(bench, local)
    assert warned(bench, local, most_nodata_percent=100).keys() == {"RASTER_EMPTY"}


def test_from_nine_tenths_on_it_is_a_warning(bench: Bench) -> None:
    assert warned(bench, write_raster(bench.folder / "in.tif", partly(0.95, 0), nodata=0)).keys() == {"RASTER_EMPTY"}
    assert warned(bench, write_raster(bench.folder / "in.tif", partly(0.85, 0), nodata=0)) == {}


def test_data_in_another_band_or_outside_the_sample_is_data(bench: Bench) -> None:
    bands = hills(100, 100, bands=2)
    bands[0] = -5
    assert warned(bench, write_raster(bench.folder / "in.tif", bands, nodata=-5)) == {}
    # The sample is some blocks spread over it; data is between them.
    large = np.zeros((1, 4096, 4096), "uint8")
    large[:, 256:512, :] = large[:, 1024:1280, :] = 7
    local = write_raster(bench.folder / "large.tif", large, nodata=0, tiled=True, blockxsize=256, blockysize=256)
    output: Any = bench.output("raster.validate", source=bench.put(local).model_dump(mode="json"))
    assert 0.8 < output["nodata_share"] < 0.95


@pytest.mark.parametrize(("share", "nodata"), [(1 / 3, 0.0), (1 / 3, None), (0.002, 0.0)])
def test_a_probable_mark_for_missing_data_is_named(bench: Bench, share: float, nodata: float | None) -> None:
    found = warned(bench, write_raster(bench.folder / "in.tif", partly(share, -9999), nodata=nodata))
    assert found.keys() == {"RASTER_NODATA_SUSPECTED"}
    assert "the value -9999" in found["RASTER_NODATA_SUSPECTED"]
    assert "nodata=-9999" in found["RASTER_NODATA_SUSPECTED"]


@pytest.mark.parametrize(
    ("pixels", "nodata"),
    [
        pytest.param(partly(1 / 3, -9999), -9999, id="declared"),
        pytest.param(partly(0.0001, -9999), None, id="one pixel"),
        pytest.param(np.linspace(-9999, 9000, 10_000, dtype="float32").reshape(1, 100, 100), None, id="a range"),
        pytest.param(np.repeat(np.array([0, 65535], "uint16"), 5000).reshape(1, 100, 100), None, id="a mask"),
    ],
)
def test_what_may_well_be_measured_is_not(bench: Bench, pixels: Any, nodata: float | None) -> None:
    assert warned(bench, write_raster(bench.folder / "in.tif", pixels, nodata=nodata)) == {}


def test_other_doubts_about_values(bench: Bench) -> None:
    folder = bench.folder
    assert warned(bench, write_raster(folder / "a.tif", partly(0.1, np.nan))).keys() == {"RASTER_NODATA_UNDECLARED"}
    assert warned(bench, write_raster(folder / "b.tif", partly(0.1, -3.4e38))).keys() == {"RASTER_EXTREME_VALUES"}
    inside = partly(0.1, 100)
    assert warned(bench, write_raster(folder / "c.tif", inside, nodata=100)).keys() == {"RASTER_NODATA_CONFLICT"}
    given = write_raster(folder / "d.tif", partly(0.1, -1), nodata=-2)
    assert warned(bench, given, nodata=-1).keys() == {"NODATA_OVERRIDE"}


@pytest.mark.parametrize(
    ("transform", "code"),
    [
        (Affine(0.01, 0, 10, 0, 0.01, 40), "RASTER_SOUTH_UP"),
        (Affine(0.01, 0.002, 10, 0.002, -0.01, 40), "RASTER_ROTATED"),
        (from_origin(350, 40, 0.2, 0.2), "SUSPICIOUS_BOUNDS"),
    ],
)
def test_doubts_about_the_place(bench: Bench, transform: Affine, code: str) -> None:
    local = write_raster(bench.folder / "in.tif", hills(100, 100), crs=WGS84, transform=transform)
    assert warned(bench, local).keys() == {code}


def test_a_task_that_does_all_of_it_hands_all_warnings_on(bench: Bench) -> None:
    local = write_raster(bench.folder / "in.tif", partly(1 / 3, -9999), nodata=0)
    params = {"source": bench.put(local).model_dump(mode="json"), "item_id": "dem"}
    saved, result = run(bench, params)
    assert result is not None
    assert [warning.code for warning in result.warnings] == ["RASTER_NODATA_SUSPECTED", "DATETIME_ASSUMED"]
    _, again = run(bench, params, resume=saved[-1])
    assert again is not None
    assert again.warnings == result.warnings
    _, dated = run(bench, {**params, "datetime": WHEN})
    assert dated is not None
    assert [warning.code for warning in dated.warnings] == ["RASTER_NODATA_SUSPECTED"]


def test_every_code_is_documented() -> None:
    page = PAGE.read_text()
    assert [finding for finding in Finding if f"`{finding.value}`" not in page] == []
