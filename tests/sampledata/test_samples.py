"""Samples as whoever opens them sees them: their place, values and blocks; and that they are the same again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform_bounds

from rmhdag.sampledata.files import write_sample
from rmhdag.sampledata.kinds import DEFAULT_SEED, SAMPLES, Kind, Sample
from rmhdag.sampledata.noise import Window, fractal

ALL = [sample for samples in SAMPLES.values() for sample in samples]
SIZE = 256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("samples")
    for sample in ALL:
        write_sample(made / sample.name, sample, SIZE, DEFAULT_SEED)
    return made


def sample_of(kind: Kind) -> Sample:
    return SAMPLES[kind][0]


@pytest.mark.parametrize("sample", ALL, ids=lambda sample: sample.name)
def test_every_sample_is_a_plain_geotiff_with_a_place_and_a_time(sample: Sample, folder: Path) -> None:
    with rasterio.open(folder / sample.name, driver="GTiff") as raster:
        assert raster.crs == rasterio.crs.CRS.from_string(sample.crs)
        assert (raster.width, raster.height) == (SIZE, SIZE)
        assert raster.nodata == sample.nodata
        assert raster.tags()["TIFFTAG_DATETIME"] == "2024:06:15 10:30:00"
        assert not raster.overviews(1), "a sample is what comes in, not what we make of it"
        west, south, east, north = transform_bounds(raster.crs, "EPSG:4326", *raster.bounds)
        assert -90 <= south < north <= 90
        assert -180 <= west <= 180
        assert -180 <= east <= 180


def test_the_set_covers_what_makes_rasters_different(folder: Path) -> None:
    assert {sample.crs for sample in ALL} >= {"EPSG:32632", "EPSG:4326", "EPSG:3857", "EPSG:3031"}
    with_nodata = [sample.nodata is None for sample in SAMPLES[Kind.TILE_SET]]
    assert any(with_nodata)
    assert not all(with_nodata)
    with rasterio.open(folder / "antimeridian.tif") as raster:
        west, _, east, _ = transform_bounds(raster.crs, "EPSG:4326", *raster.bounds)
        assert west > east, "it crosses the 180th meridian"
    with rasterio.open(folder / "south_pole.tif") as raster:
        assert raster.bounds.left < 0 < raster.bounds.right, "the pole lies in the middle"
        assert raster.bounds.bottom < 0 < raster.bounds.top


def test_a_dem_has_land_and_a_coast(folder: Path) -> None:
    with rasterio.open(folder / "dem.tif") as raster:
        heights = raster.read(1, masked=True)
        assert raster.dtypes == ("float32",)
        assert raster.units == ("m",)
    assert 0.02 < np.ma.getmaskarray(heights).mean() < 0.9
    assert heights.min() > 0
    assert 800 < heights.max() < 9_000
    steps = np.abs(np.diff(heights.astype("float64"), axis=0))
    assert steps.mean() < heights.std() / 5, "terrain is smooth from pixel to pixel"


def test_plants_reflect_near_infrared_and_corners_are_empty(folder: Path) -> None:
    with rasterio.open(folder / "multiband.tif") as raster:
        assert raster.descriptions == ("blue", "green", "red", "nir")
        assert raster.scales == (0.0001,) * 4
        pixels = raster.read(masked=True).astype("float64")
    empty = np.ma.getmaskarray(pixels)
    assert (empty[0] == empty[3]).all(), "all bands end at the same edge"
    assert empty[:, 0, 0].all()
    assert not empty[:, SIZE // 2, SIZE // 2].any()
    greenness = (pixels[3] - pixels[2]) / (pixels[3] + pixels[2])
    assert greenness.max() > 0.5
    assert greenness.min() < 0.0


def test_land_cover_has_classes_with_colours(folder: Path) -> None:
    with rasterio.open(folder / "landcover.tif") as raster:
        classes, counts = np.unique(raster.read(1), return_counts=True)
        colours = raster.colormap(1)
        names = raster.tags(1)
    assert len(classes) >= 4
    assert counts.min() >= 1
    for number in classes:
        assert colours[int(number)][:3] != (0, 0, 0)
        assert names[f"CLASS_{number}"]


@pytest.mark.parametrize("kind", list(SAMPLES))
def test_the_same_seed_gives_the_same_bytes(kind: Kind, folder: Path, tmp_path: Path) -> None:
    sample = sample_of(kind)
    for name, seed in (("again.tif", DEFAULT_SEED), ("other.tif", 1)):
        write_sample(tmp_path / name, sample, SIZE, seed)
    first, again, other = (
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / sample.name, tmp_path / "again.tif", tmp_path / "other.tif")
    )
    assert first == again
    assert first != other


def test_a_window_is_the_same_whatever_is_made_around_it() -> None:
    whole = fractal(Window(-40, 100, 300, 200), 5, 1, 90.0)
    part = fractal(Window(60, 150, 64, 64), 5, 1, 90.0)
    assert (whole[100:164, 50:114] == part).all()


def test_tiles_of_a_survey_meet_without_a_seam(folder: Path) -> None:
    def edge(name: str, column: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        with rasterio.open(folder / name) as raster:
            return np.asarray(raster.read(1)[:, column], dtype=np.float64)

    left, right = edge("survey_0_0.tif", -1), edge("survey_0_1.tif", 0)
    land = (left > 0) & (right > 0)
    assert land.any()
    assert np.abs(left - right)[land].mean() < 60
    with rasterio.open(folder / "survey_0_0.tif") as one, rasterio.open(folder / "survey_0_1.tif") as two:
        assert one.bounds.right == two.bounds.left


def test_blocks_keep_memory_small(tmp_path: Path) -> None:
    """Four times the pixels, hardly more memory: a process of its own tells its peak."""
    code = (
        "import sys; from pathlib import Path; from tests.memory import peak_mb\n"
        "from rmhdag.sampledata.files import write_sample; from rmhdag.sampledata.kinds import SAMPLES, Kind\n"
        "write_sample(Path(sys.argv[1]), SAMPLES[Kind.MULTIBAND][0], int(sys.argv[2]), 1)\n"
        "print(peak_mb())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "large.tif"), "2560"], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 200


def test_nothing_is_left_of_a_sample_that_could_not_be_finished(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_sample(tmp_path / "dem.tif", sample_of(Kind.DEM), SIZE, 1, stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [15, 100_001])
def test_sizes_that_make_no_sense_are_refused(size: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pixels along each side"):
        write_sample(tmp_path / "dem.tif", sample_of(Kind.DEM), size, 1)
