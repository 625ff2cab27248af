"""raster.create_cog: the same pixels, in an order that readers like, and the same bytes for the same input."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp, Resampling
from rasterio.transform import from_origin
from rio_cogeo.cogeo import cog_validate

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.cog_files import CogOptions, CogProfile, overview_factors, write_cog
from rmhdag.models.records import BlobRecord, LineageRecord, Zone
from rmhdag.testing import HandlerBench, Recording
from tests.handlers.raster.rasters import Bench, hills, read, write_raster


def make(bench: Bench, local: Path, **params: Any) -> tuple[dict[str, Any], Path]:
    bench.put(local)
    output: Any = bench.output("raster.create_cog", container_name="in", blob_name=local.name, **params)
    return output, bench.path(output["cog"])


def test_pixels_place_and_description_stay(bench: Bench) -> None:
    pixels = hills(bands=2)
    pixels[0, :50, :60] = -9999
    local = write_raster(bench.folder / "hills.tif", pixels, nodata=-9999)
    with rasterio.open(local, "r+") as dataset:
        dataset.set_band_description(2, "second")
        dataset.set_band_unit(1, "metre")
        dataset.scales = (0.5, 1.0)
        dataset.update_tags(PRODUCER="tests")
        dataset.update_tags(1, CHANNEL="7", STATISTICS_MEAN="1")
    output, cog = make(bench, local, item_id="dem")
    assert cog_validate(cog, strict=True)[0]
    np.testing.assert_array_equal(read(cog), pixels)
    with rasterio.open(local) as before, rasterio.open(cog) as after:
        assert (after.crs, after.transform, after.nodata) == (before.crs, before.transform, -9999)
        assert after.descriptions == (None, "second")
        assert after.units[0] == "metre"
        assert after.scales == (0.5, 1.0)
        assert after.tags()["PRODUCER"] == "tests"
        assert after.tags(1)["CHANNEL"] == "7"
        assert "STATISTICS_MEAN" not in after.tags(1)
        assert after.overviews(1) == output["overviews"] == [2]
        assert after.block_shapes[0] == (512, 512)
        assert after.profile["compress"] == "deflate"
        assert output["bounds"] == list(after.bounds)
    assert (output["width"], output["height"], output["crs"]) == (700, 600, "EPSG:32633")


def test_the_result_says_what_was_made_and_from_what(bench: Bench) -> None:
    source = bench.put(write_raster(bench.folder / "hills.tif", hills()))
    result = bench.run("create_cog", source=source.model_dump(mode="json"), item_id="dem")
    output: Any = result.output
    cog = output["cog"]
    assert cog["zone"] == "silver"
    assert cog["container"] == "cogs"
    assert cog["path"] == f"dem/dem-{cog['sha256'][:16]}.tif"
    assert cog["media_type"] == "image/tiff; application=geotiff; profile=cloud-optimized"
    blob, lineage = result.records
    assert isinstance(blob, BlobRecord)
    assert (blob.role, blob.sha256, blob.path) == ("data", cog["sha256"], cog["path"])
    assert isinstance(lineage, LineageRecord)
    assert lineage.source_url == bench.storage.url(source.address)


def test_lineage_names_what_came_in_and_not_what_lies_between(bench: Bench) -> None:
    came_in = bench.put(write_raster(bench.folder / "came-in.tif", hills()))
    between = bench.put(write_raster(bench.folder / "between.tif", hills()))
    sources: dict[str, Any] = {"source": between.model_dump(mode="json"), "made_from": came_in.model_dump(mode="json")}
    _, lineage = bench.run("raster.create_cog", **sources).records
    assert isinstance(lineage, LineageRecord)
    assert lineage.source_url == bench.storage.url(came_in.address)


def test_the_same_again_is_the_same_file(bench: Bench) -> None:
    local = write_raster(bench.folder / "hills.tif", hills(1100, 1300), nodata=-1)
    first, cog = make(bench, local)
    before = cog.read_bytes(), cog.stat().st_mtime_ns
    second, _ = make(bench, local)
    assert second == first
    assert (cog.read_bytes(), cog.stat().st_mtime_ns) == before
    assert len(bench.files(Zone.SILVER)) == 1


def test_threads_do_not_change_a_byte(bench: Bench) -> None:
    local = write_raster(bench.folder / "hills.tif", hills(1100, 600, bands=2), tiled=True)
    made = []
    for threads in ("1", "3"):
        with rasterio.Env(GDAL_NUM_THREADS=threads), rasterio.open(local) as dataset:
            write_cog(dataset, bench.folder / f"{threads}.tif", bench.folder, CogOptions())
        made.append((bench.folder / f"{threads}.tif").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("profile", ["deflate", "zstd", "lzw"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "float32", "float64"])
def test_lossless_profiles_keep_every_type(bench: Bench, profile: str, dtype: str) -> None:
    pixels = hills(300, 300, dtype=dtype)
    with rasterio.open(write_raster(bench.folder / "in.tif", pixels)) as dataset:
        write_cog(
            dataset, bench.folder / "out.tif", bench.folder, CogOptions(profile=CogProfile(profile), blocksize=128)
        )
    np.testing.assert_array_equal(read(bench.folder / "out.tif"), pixels)
    with rasterio.open(bench.folder / "out.tif") as made:
        assert made.profile["compress"] == profile
        assert made.tags(ns="IMAGE_STRUCTURE")["PREDICTOR"] == ("3" if dtype.startswith("float") else "2")
        assert made.overviews(1) == [2, 4]


@pytest.mark.parametrize(("profile", "bands"), [("jpeg", 3), ("jpeg", 1), ("webp", 3)])
def test_pictures_may_be_lossy_and_nodata_becomes_a_mask(bench: Bench, profile: str, bands: int) -> None:
    pixels = hills(300, 300, dtype="uint8", bands=bands)
    pixels[:, :64, :64] = 0
    local = write_raster(bench.folder / "picture.tif", pixels, nodata=0)
    _, cog = make(bench, local, profile=profile, blocksize=256)
    with rasterio.open(cog) as made:
        assert made.nodata is None
        mask = made.dataset_mask()
        assert not mask[:64, :64].any()
        assert mask[64:, 64:].all()
        difference = np.abs(made.read()[:, 80:, 80:].astype(int) - pixels[:, 80:, 80:])
        assert difference.mean() < 6
    assert cog_validate(cog, strict=True)[0]


def test_alpha_becomes_the_mask_of_a_jpeg(bench: Bench) -> None:
    pixels = hills(200, 200, dtype="uint8", bands=4)
    pixels[3] = 255
    pixels[3, :100] = 0
    local = write_raster(bench.folder / "rgba.tif", pixels, photometric="RGB", alpha="YES")
    _, cog = make(bench, local, profile="jpeg")
    with rasterio.open(cog) as made:
        assert made.count == 3
        np.testing.assert_array_equal(made.dataset_mask() > 0, pixels[3] > 0)


@pytest.mark.parametrize(
    ("pixels", "params", "sentence"),
    [
        (hills(64, 64), {"profile": "jpeg"}, "profile jpeg is for 8-bit pictures of 1 or 3 bands"),
        (hills(64, 64, dtype="uint8", bands=2), {"profile": "webp"}, "this raster has 2 of uint8: choose deflate"),
        (hills(64, 64, dtype="uint8"), {"nodata": 300}, "nodata 300 is not a value of uint8 pixels"),
        (hills(64, 64, dtype="int16"), {"nodata": "nan"}, "nodata nan is not a value of int16"),
    ],
)
def test_what_cannot_be_is_said(bench: Bench, pixels: Any, params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NonRetryableError, match=sentence):
        make(bench, write_raster(bench.folder / "in.tif", pixels), **params)
    assert bench.files(Zone.SILVER) == []


def test_a_raster_without_place_is_refused(bench: Bench) -> None:
    local = write_raster(bench.folder / "nowhere.tif", hills(64, 64), crs=None)
    with pytest.raises(NonRetryableError, match="coordinate system"):
        make(bench, local)


def test_nodata_given_by_hand_replaces_that_of_the_file(bench: Bench) -> None:
    pixels = hills(100, 100)
    pixels[:, :10] = np.nan
    _, cog = make(bench, write_raster(bench.folder / "in.tif", pixels, nodata=-1), nodata="nan")
    with rasterio.open(cog) as made:
        assert np.isnan(made.nodata)
        assert not made.dataset_mask()[:10].any()
        assert made.dataset_mask()[10:].all()


def test_a_mask_band_stays(bench: Bench) -> None:
    local = write_raster(bench.folder / "in.tif", hills(600, 600))
    mask = np.full((600, 600), 255, dtype=np.uint8)
    mask[:, :77] = 0
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(local, "r+") as dataset:
        dataset.write_mask(mask)
    _, cog = make(bench, local)
    with rasterio.open(cog) as made:
        np.testing.assert_array_equal(made.dataset_mask(), mask)
    with rasterio.open(cog, overview_level=0) as reduced:
        assert not reduced.dataset_mask()[:, :36].any()


def test_a_palette_stays_and_its_classes_are_not_averaged(bench: Bench) -> None:
    classes = (np.indices((600, 600)).sum(axis=0) % 2 * 7).astype("uint8")
    local = write_raster(bench.folder / "classes.tif", classes)
    with rasterio.open(local, "r+") as dataset:
        dataset.write_colormap(1, {0: (1, 2, 3, 255), 7: (200, 100, 50, 255)})
    _, cog = make(bench, local)
    with rasterio.open(cog) as made:
        assert made.colorinterp == (ColorInterp.palette,)
        assert made.colormap(1)[7] == (200, 100, 50, 255)
    with rasterio.open(cog, overview_level=0) as reduced:
        assert set(np.unique(reduced.read(1))) <= {0, 7}


def test_overviews_of_floats_are_averages(bench: Bench) -> None:
    pixels = hills(1024, 1024)
    _, cog = make(bench, write_raster(bench.folder / "in.tif", pixels))
    expected = pixels[0].reshape(512, 2, 512, 2).mean(axis=(1, 3))
    with rasterio.open(cog, overview_level=0) as reduced:
        np.testing.assert_allclose(reduced.read(1), expected, rtol=1e-5)


def test_many_bands_lie_one_behind_the_other(bench: Bench) -> None:
    pixels = hills(200, 200, bands=9)
    _, cog = make(bench, write_raster(bench.folder / "in.tif", pixels, interleave="band"))
    np.testing.assert_array_equal(read(cog), pixels)
    with rasterio.open(cog) as made:
        assert made.profile["interleave"] == "band"


@pytest.mark.parametrize(
    ("size", "factors"), [((512, 512), []), ((513, 10), [2]), ((1024, 1024), [2]), ((4096, 100), [2, 4, 8])]
)
def test_overviews_end_when_one_block_holds_all(size: tuple[int, int], factors: list[int]) -> None:
    assert overview_factors(*size, 512) == factors


@pytest.mark.parametrize("word", ["reading", "overview 1:2", "writing the COG"])
def test_a_task_that_is_told_to_stop_leaves_nothing(bench: Bench, word: str) -> None:
    bench.put(write_raster(bench.folder / "in.tif", hills(1600, 1200)))
    run = HandlerBench(bench.folder).run(
        "raster.create_cog",
        {"container_name": "in", "blob_name": "in.tif"},
        stop_when=lambda seen: any(word in str(one.message) for one in seen.progress_calls),
    )
    assert run.stopped
    assert bench.files(Zone.SILVER) == []
    assert word in str(run.progress[-1].message)


def test_progress_never_goes_back(bench: Bench) -> None:
    bench.put(write_raster(bench.folder / "in.tif", hills(1600, 1200)))
    recording = Recording()
    bench.run("raster.create_cog", recording, container_name="in", blob_name="in.tif")
    said = [one.current for one in recording.progress_calls]
    assert said == sorted(said)
    assert (said[0], said[-1]) == (0, 100)


def test_a_reference_to_a_file_that_has_changed_is_refused(bench: Bench) -> None:
    source = bench.put(write_raster(bench.folder / "in.tif", hills(64, 64)))
    bench.put(write_raster(bench.folder / "in.tif", hills(90, 90)))
    with pytest.raises(NonRetryableError, match="replaced"):
        bench.run("raster.create_cog", source=source.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("handler", "params"),
    [
        ("raster.create_cog", {}),
        ("raster.clip", {"bbox": [15.0, 45.0, 15.1, 45.1]}),
        ("raster.reproject", {"crs": "EPSG:4326"}),
    ],
)
def test_a_reference_to_a_file_that_was_replaced_by_one_of_its_size_is_refused(
    bench: Bench, handler: str, params: dict[str, Any]
) -> None:
    source = bench.put(write_raster(bench.folder / "in.tif", np.full((64, 64), 1, "uint8")))
    other = bench.put(write_raster(bench.folder / "in.tif", np.full((64, 64), 2, "uint8")))
    assert source.size_bytes == other.size_bytes
    with pytest.raises(NonRetryableError, match="it was replaced; submit it again"):
        bench.run(handler, source=source.model_dump(mode="json"), **params)


def test_memory_does_not_grow_with_the_raster(tmp_path: Path) -> None:
    """4,096² float32 are 64 MB; windows and caches of libraries are all that may come on top of a small one."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "import numpy as np, rasterio\n"
        "from tests.memory import peak_mb\n"
        "from rmhdag.handlers.raster.cog_files import CogOptions, write_cog\n"
        "folder, size = Path(sys.argv[1]), int(sys.argv[2])\n"
        "place = rasterio.transform.from_origin(0, 0, 1, 1)\n"
        "profile = dict(driver='GTiff', width=size, height=size, count=1, dtype='float32', crs='EPSG:3857',\n"
        "    transform=place, tiled=True)\n"
        "with rasterio.Env(GDAL_CACHEMAX=32):\n"
        "    with rasterio.open(folder / 'in.tif', 'w', **profile) as target:\n"
        "        row = np.arange(size * 512, dtype='float32').reshape(512, size) % 977\n"
        "        for top in range(0, size, 512):\n"
        "            target.write(row, 1, window=rasterio.windows.Window(0, top, size, 512))\n"
        "    with rasterio.open(folder / 'in.tif') as source:\n"
        "        write_cog(source, folder / 'out.tif', folder, CogOptions(profile='zstd'))\n"
        "print(peak_mb())\n"
    )
    peaks = []
    for size in (512, 4096):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), str(size)], check=True, capture_output=True, text=True
        )
        peaks.append(float(done.stdout))
    assert peaks[1] - peaks[0] < 160, peaks


def test_a_full_disk_is_no_fault_of_the_source(bench: Bench) -> None:
    """A limit on the size of files stands for the disk. The error is a plain one: worth another attempt."""
    noise = np.random.default_rng(1).random((1, 600, 600)).astype("float32")
    bench.put(write_raster(bench.folder / "in.tif", noise))
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from rmhdag.handlers.raster.writing import NotWritten\n"
        "from tests.handlers.raster.rasters import Bench\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))\n"
        "try:\n"
        "    Bench(Path(sys.argv[1])).run('raster.create_cog', container_name='in', blob_name='in.tif')\n"
        "except NotWritten as error:\n"
        "    print(error)\n"
    )
    for most_bytes in (300_000, 1_450_000, 1_550_000):
        done = subprocess.run(
            [sys.executable, "-c", program, str(bench.folder), str(most_bytes)],
            check=True,
            capture_output=True,
            text=True,
        )
        assert "is the worker's disk full?" in done.stdout
    assert bench.files(Zone.SILVER) == []


def test_resampling_may_be_chosen(bench: Bench) -> None:
    pixels = hills(1024, 1024)
    _, cog = make(bench, write_raster(bench.folder / "in.tif", pixels), resampling="nearest")
    with rasterio.open(cog, overview_level=0) as reduced:
        assert np.isin(reduced.read(1), pixels).all()
    with rasterio.open(cog) as made:
        assert made.tags()["OVERVIEW_RESAMPLING"] == Resampling.nearest.name.upper()


def test_a_name_follows_from_the_file_if_none_is_given(bench: Bench) -> None:
    local = write_raster(bench.folder / "in.tif", hills(64, 64), transform=from_origin(500_000, 5_000_000, 1, 1))
    bench.put(local, "2024/Höhe über NN (v2).tif")
    output: Any = bench.output("raster.create_cog", container_name="in", blob_name="2024/Höhe über NN (v2).tif")
    assert output["cog"]["path"].startswith("H-he-ber-NN-v2/H-he-ber-NN-v2-")
