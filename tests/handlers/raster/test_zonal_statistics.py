"""raster.stats_zonal: figures of zones, against plain sums."""

import json
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp
from rasterio.transform import Affine, from_origin
from shapely.geometry import box, mapping

from rmhdag.handlers import NonRetryableError
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from tests.handlers.raster.rasters import UTM, WGS84, Bench, hills, write_raster


def put(bench: Bench, pixels: Any, **options: Any) -> dict[str, Any]:
    return bench.put(write_raster(bench.folder / "in.tif", pixels, **options)).model_dump(mode="json")


def collection(*boxes: tuple[float, float, float, float], **properties: Any) -> dict[str, Any]:
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"name": f"zone {number}", **properties},
                "geometry": mapping(box(*edges)),
            }
            for number, edges in enumerate(boxes)
        ],
    }


def test_whole_pixels_are_plain_sums(bench: Bench) -> None:
    pixels = hills(bands=2)
    pixels[0, 100:110, 100:110] = -5
    zones = collection((501_000, 4_997_500, 503_000, 4_999_000), (500_000, 4_999_900, 500_100, 5_000_000))
    statistics = ["count", "sum", "mean", "min", "max", "stdev", "median", "variety"]
    output: Any = bench.output(
        "stats_zonal",
        source=put(bench, pixels, nodata=-5),
        zones=zones,
        crs=UTM,
        statistics=statistics,
        id_property="name",
    )
    assert output["zone_count"] == 2
    assert output["file"] is None
    slices = {"zone 0": np.s_[100:250, 100:300], "zone 1": np.s_[0:10, 0:10]}
    assert [(row["zone"], row["band"]) for row in output["statistics"]] == [
        ("zone 0", 1),
        ("zone 0", 2),
        ("zone 1", 1),
        ("zone 1", 2),
    ]
    for row in output["statistics"]:
        inside = pixels[row["band"] - 1][slices[row["zone"]]]
        inside = inside[inside != -5].astype("float64")
        assert row["count"] == inside.size
        assert row["sum"] == pytest.approx(inside.sum())
        assert row["mean"] == pytest.approx(inside.mean())
        assert (row["min"], row["max"]) == (inside.min(), inside.max())
        assert row["stdev"] == pytest.approx(inside.std(), rel=1e-4)
        assert row["median"] == pytest.approx(np.median(inside), rel=1e-3)
        assert row["variety"] == np.unique(inside).size


def test_a_pixel_counts_by_its_share(bench: Bench) -> None:
    pixels = np.array([[1, 3]], dtype="float32")
    zones = collection((500_005, 4_999_990, 500_020, 5_000_000))
    output: Any = bench.output("raster.stats_zonal", source=put(bench, pixels), zones=zones, crs=UTM)
    (row,) = output["statistics"]
    assert row == {"zone": 0, "band": 1, "count": 1.5, "sum": 3.5, "mean": pytest.approx(3.5 / 1.5), "min": 1, "max": 3}


def test_a_zone_that_holds_nothing_has_no_figures(bench: Bench) -> None:
    pixels = hills(50, 50)
    pixels[:, :, :10] = np.nan
    zones = collection((600_000, 4_900_000, 600_100, 4_900_100), (500_000, 4_999_900, 500_100, 5_000_000))
    output: Any = bench.output("raster.stats_zonal", source=put(bench, pixels, nodata=np.nan), zones=zones, crs=UTM)
    assert [(row["count"], row["mean"], row["max"]) for row in output["statistics"]] == [(0, None, None)] * 2


def test_zones_in_degrees_across_the_antimeridian(bench: Bench) -> None:
    pixels = np.ones((180, 360), dtype="uint8")
    source = put(bench, pixels, crs=WGS84, transform=from_origin(-180, 90, 1, 1))
    zones = {
        "type": "MultiPolygon",
        "coordinates": [
            mapping(box(170, -10, 180, 10))["coordinates"],
            mapping(box(-180, -10, -175, 10))["coordinates"],
        ],
    }
    output: Any = bench.output("raster.stats_zonal", source=source, zones=zones, statistics=["sum"])
    assert output["statistics"] == [{"zone": 0, "band": 1, "sum": 300}]


@pytest.mark.parametrize(
    ("crs", "west", "north"),
    [(UTM, 500_000, 5_000_000), ("EPSG:32701", 179_000, 8_000_000), ("EPSG:3031", -3_000, 3_000)],
    ids=["utm", "antimeridian", "south-pole"],
)
def test_a_zone_may_be_the_world_and_another_far_away(bench: Bench, crs: str, west: float, north: float) -> None:
    source = put(bench, hills(60, 70), crs=crs, transform=from_origin(west, north, 100, 100))
    zones = collection((-180, -90, 180, 90), (100, 0, 101, 1), (-80, 0, -70, 10))
    output: Any = bench.output("raster.stats_zonal", source=source, zones=zones)
    world, *far = output["statistics"]
    assert world["count"] == pytest.approx(60 * 70)
    assert world["sum"] == pytest.approx(hills(60, 70).astype("float64").sum())
    assert [(row["count"], row["mean"]) for row in far] == [(0, None)] * 2


def test_zones_may_be_a_file_and_long_results_become_one(bench: Bench) -> None:
    steps = [(x, y) for x in range(60) for y in range(60)]
    zones = collection(
        *((500_000 + 20 * x, 4_998_800 + 20 * y, 500_020 + 20 * x, 4_998_820 + 20 * y) for x, y in steps)
    )
    address = BlobAddress(Zone.BRONZE, "in", "zones.geojson")
    bench.storage.write(address, json.dumps(zones).encode())
    source = put(bench, hills(120, 120))
    output: Any = bench.output(
        "raster.stats_zonal", source=source, zones_source={"container": "in", "path": "zones.geojson"}, crs=UTM
    )
    assert output["statistics"] is None
    assert output["row_count"] == 3600
    assert output["file"]["container"] == "statistics"
    rows = json.loads(bench.path(output["file"]).read_bytes())
    assert len(rows) == 3600
    assert sum(row["sum"] for row in rows) == pytest.approx(hills(120, 120).astype("float64").sum())


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"zones": {"type": "FeatureCollection", "features": []}}, "there are no zones"),
        ({"zones": collection((0, 0, 1, 1)), "id_property": "code"}, "has no property 'code'"),
        ({"zones": collection((0, 0, 1, 1)), "bands": [2]}, "there is no band 2"),
        ({"zones": {"type": "Point", "coordinates": [0, 0]}}, "zone 0: .*give a Polygon"),
        ({}, "give the zones once"),
        ({"zones": collection((0, 0, 1, 1)), "statistics": ["mean; drop"]}, "/statistics/0"),
        ({"zones_source": {"container": "in", "path": "in.tif"}}, "is not GeoJSON"),
        ({"zones_source": {"container": "in", "path": "no.json"}}, "there is no file .*no.json: check its name"),
    ],
)
def test_bad_zones_are_refused(bench: Bench, params: dict[str, Any], sentence: str) -> None:
    source = put(bench, hills(50, 50))
    with pytest.raises(NonRetryableError, match=sentence):
        bench.run("raster.stats_zonal", source=source, **params)


def put_masked(bench: Bench, pixels: Any, valid: Any, **options: Any) -> dict[str, Any]:
    path = write_raster(bench.folder / "masked.tif", pixels, **options)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as dataset:
        dataset.write_mask(valid)
    return bench.put(path).model_dump(mode="json")


@pytest.mark.parametrize(
    "dtype", ["float32", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float64"]
)
def test_pixels_that_a_mask_hides_do_not_count(bench: Bench, dtype: str) -> None:
    pixels = hills(60, 70, dtype=dtype)
    valid = np.ones((60, 70), dtype=bool)
    valid[:, :20] = False
    pixels[0, 30, 30] = 7
    # Neither zone ends where the raster does.
    zones = collection((500_100, 4_999_450, 500_600, 4_999_950), (500_000, 4_999_500, 500_150, 5_000_000))
    source = put_masked(bench, pixels, valid, nodata=7)
    output: Any = bench.output(
        "raster.stats_zonal", source=source, zones=zones, crs=UTM, statistics=["count", "sum", "min", "max", "variety"]
    )
    inside = np.s_[5:55, 10:60]
    counted = pixels[0][inside][(valid & (pixels[0] != 7))[inside]].astype("float64")
    first, second = output["statistics"]
    assert first["count"] == counted.size
    assert first["sum"] == pytest.approx(counted.sum())
    assert (first["min"], first["max"], first["variety"]) == (counted.min(), counted.max(), np.unique(counted).size)
    assert (second["count"], second["min"]) == (0, None)


@pytest.mark.parametrize(
    ("across", "down"), [(1, 1), (-1, -1), (-1, 1)], ids=["south-up", "mirrored", "south-up and mirrored"]
)
def test_a_raster_that_is_stored_the_other_way_has_the_same_figures(bench: Bench, across: int, down: int) -> None:
    pixels = hills(60, 70)
    valid = hills(60, 70)[0] > 120
    zones = collection((500_105, 4_999_455, 500_300, 4_999_700), (500_400, 4_999_800, 500_700, 5_000_000))
    upright = put_masked(bench, pixels, valid)
    expected: Any = bench.output("raster.stats_zonal", source=upright, zones=zones, crs=UTM)
    west, north = 500_000 if across > 0 else 500_700, 5_000_000 if down < 0 else 4_999_400
    turned = put_masked(
        bench,
        pixels[:, ::-down, ::across],
        valid[::-down, ::across],
        transform=Affine(10 * across, 0, west, 0, 10 * down, north),
    )
    found: Any = bench.output("raster.stats_zonal", source=turned, zones=zones, crs=UTM)
    assert found["statistics"][0]["count"] > 0
    for row, wanted in zip(found["statistics"], expected["statistics"], strict=True):
        assert row == pytest.approx(wanted)


@pytest.mark.parametrize("colours", [3, 5])
def test_transparent_pixels_do_not_count(bench: Bench, colours: int) -> None:
    pixels = hills(60, 70, dtype="uint8", bands=colours + 1)
    pixels[-1] = 255
    pixels[-1, :, :20] = 0
    path = write_raster(bench.folder / "in.tif", pixels)
    with rasterio.open(path, "r+") as dataset:
        dataset.colorinterp = [ColorInterp.gray, *[ColorInterp.undefined] * (colours - 1), ColorInterp.alpha]
    source = bench.put(path).model_dump(mode="json")
    zones = collection((500_100, 4_999_450, 500_600, 4_999_950))
    output: Any = bench.output("raster.stats_zonal", source=source, zones=zones, crs=UTM)
    *shown, alpha = output["statistics"]
    assert [row["count"] for row in shown] == [50 * 40] * colours
    assert [row["sum"] for row in shown] == [int(band[5:55, 20:60].sum()) for band in pixels[:-1]]
    assert (alpha["count"], alpha["min"]) == (50 * 50, 0)


def test_nothing_of_scaled_pixels_does_not_count(bench: Bench) -> None:
    pixels = np.full((60, 70), 5, dtype="int16")
    pixels[:, :20] = -1
    path = write_raster(bench.folder / "in.tif", pixels, nodata=-1)
    with rasterio.open(path, "r+") as dataset:
        dataset.scales, dataset.offsets = [0.5], [1.0]
    source = bench.put(path).model_dump(mode="json")
    output: Any = bench.output(
        "raster.stats_zonal", source=source, zones=collection((500_100, 4_999_450, 500_600, 4_999_950)), crs=UTM
    )
    (row,) = output["statistics"]
    assert (row["count"], row["sum"], row["min"]) == (2000, 7000, 3.5)
