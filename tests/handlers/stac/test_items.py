"""Items from COGs: valid by schema, true to the file, the same every time."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pystac
import pytest
import rasterio
from PIL import Image
from rasterio.transform import Affine
from rio_stac.stac import get_raster_info  # type: ignore[import-untyped]
from stac_pydantic import Collection as IndependentCollection
from stac_pydantic import Item as IndependentItem

from rmhdag.handlers import NonRetryableError
from rmhdag.handlers.raster.cog_files import CogOptions
from rmhdag.handlers.raster.cog_files import write_cog as make_cog
from rmhdag.handlers.stac.validation import STAC_VERSION, _explainer, find_faults
from rmhdag.models.blobs import BlobRef
from rmhdag.storage import Storage
from tests.handlers.raster.rasters import hills, write_raster
from tests.handlers.stac.conftest import Run
from tests.handlers.stac.rasters import NODATA, keep, terrain, write_cog
from tests.json_places import places_in, replaced

MOMENT = "2024-05-06T07:08:09Z"


def extract(run: Run, cog: BlobRef, **more: Any) -> dict[str, Any]:
    given = {"cog": cog.model_dump(mode="json"), "collection_id": "dem", "item_id": "hill", **more}
    output = run("raster.extract_stac_metadata", **given).output
    assert isinstance(output, dict)
    return output


@pytest.fixture
def cog(storage: Storage, tmp_path: Path) -> BlobRef:
    values = terrain()
    values[0, :64] = NODATA
    path = write_cog(tmp_path / "hill.tif", values, nodata=NODATA, tags={"TIFFTAG_DATETIME": "2020:01:02 03:04:05"})
    return keep(storage, path, "hill")


def test_an_item_tells_what_the_file_holds(run: Run, cog: BlobRef, storage: Storage) -> None:
    item = extract(run, cog, datetime=MOMENT, properties={"title": "A hill"})["item"]
    assert find_faults(item) == []
    IndependentItem.model_validate(item)
    assert pystac.Item.from_dict(item).ext.proj.shape == [256, 256]
    assert item["properties"]["datetime"] == MOMENT
    assert item["properties"]["title"] == "A hill"
    assert item["properties"]["proj:code"] == "EPSG:32633"
    assert item["properties"]["proj:transform"] == [30.0, 0.0, 500_000.0, 0.0, -30.0, 5_000_000.0]
    assert item["properties"]["proj:bbox"] == [500_000.0, 4_992_320.0, 507_680.0, 5_000_000.0]
    assert not {"created", "updated"} & item["properties"].keys()
    data = item["assets"]["data"]
    assert data["type"] == "image/tiff; application=geotiff; profile=cloud-optimized"
    assert data["file:checksum"] == f"1220{cog.sha256}"
    assert data["file:size"] == cog.size_bytes
    assert storage.address_of(data["href"]) == cog.address
    (band,) = data["raster:bands"]
    assert band["nodata"] == NODATA
    assert band["statistics"]["valid_percent"] == pytest.approx(75.0)


def test_the_box_of_a_raster_that_is_stored_from_south_to_north(run: Run, storage: Storage, tmp_path: Path) -> None:
    south_up = Affine(10, 0, 500_000, 0, 10, 5_200_000)
    with rasterio.open(write_raster(tmp_path / "in.tif", hills(600, 700), transform=south_up)) as dataset:
        layout = make_cog(dataset, tmp_path / "out.tif", tmp_path, CogOptions())
    item = extract(run, keep(storage, tmp_path / "out.tif", "hill"))["item"]
    assert item["properties"]["proj:bbox"] == layout.bounds == [500_000, 5_200_000, 507_000, 5_206_000]


def test_statistics_agree_with_another_program(run: Run, cog: BlobRef, storage: Storage) -> None:
    (band,) = extract(run, cog)["item"]["assets"]["data"]["raster:bands"]
    with rasterio.open(storage.gdal_path(cog.address)) as dataset:
        (theirs,) = get_raster_info(dataset)
    for key in ("minimum", "maximum", "mean", "stddev", "valid_percent"):
        assert band["statistics"][key] == pytest.approx(theirs["statistics"][key], rel=1e-5)
    assert sum(band["histogram"]["buckets"]) == sum(theirs["histogram"]["buckets"])


def test_figures_that_the_database_would_give_back_as_too_large_integers_are_left_out(
    run: Run, storage: Storage, tmp_path: Path
) -> None:
    """jsonb writes 1e19 as an integer, of more than 63 bits."""
    huge = np.array([[[2**63, 2**64 - 5_000], [0, 1]]], "uint64")
    for dtype, nodata in (("uint64", None), ("float64", 1e19)):
        path = write_cog(tmp_path / f"{dtype}.tif", huge.astype(dtype), nodata=nodata)
        (band,) = extract(run, keep(storage, path, dtype))["item"]["assets"]["data"]["raster:bands"]
        assert band["data_type"] == dtype
        assert not {"nodata", "histogram"} & band.keys()
        assert band["statistics"].keys() == {"minimum", "mean", "stddev", "valid_percent"}


def test_the_same_file_gives_the_same_item(run: Run, cog: BlobRef, storage: Storage) -> None:
    first, second = extract(run, cog), extract(run, cog)
    assert json.dumps(first) == json.dumps(second)
    beside = [info.address.path for info in storage.list(cog.zone, cog.container)]
    assert len(beside) == 3, "a thumbnail and a footprint beside the COG, once"


@pytest.mark.parametrize(
    ("given", "expected", "source"),
    [
        ({"datetime": MOMENT}, MOMENT, "given"),
        ({}, "2020-01-02T03:04:05Z", "tags"),
        ({"file_time": "2019-01-01T00:00:00Z"}, "2020-01-02T03:04:05Z", "tags"),
    ],
)
def test_dates(run: Run, cog: BlobRef, given: dict[str, Any], expected: str, source: str) -> None:
    properties = extract(run, cog, **given)["item"]["properties"]
    assert properties["datetime"] == expected
    assert properties["rmhdag:datetime_source"] == source


def test_a_file_without_a_date_has_that_of_its_file(run: Run, storage: Storage, tmp_path: Path) -> None:
    cog = keep(storage, write_cog(tmp_path / "a.tif", terrain(64), tags={"TIFFTAG_DATETIME": "yesterday"}), "hill")
    item = extract(run, cog)["item"]
    stored_at = storage.info(cog.address).modified_at
    assert datetime.fromisoformat(item["properties"]["datetime"]) == stored_at
    given = datetime(2001, 2, 3, tzinfo=UTC).isoformat()
    assert extract(run, cog, file_time=given)["item"]["properties"]["datetime"] == "2001-02-03T00:00:00Z"


def test_an_interval(run: Run, cog: BlobRef) -> None:
    item = extract(run, cog, start_datetime=MOMENT, end_datetime="2024-06-01T00:00:00+02:00")["item"]
    assert item["properties"]["datetime"] is None
    assert item["properties"]["end_datetime"] == "2024-05-31T22:00:00Z"
    assert find_faults(item) == []
    with pytest.raises(NonRetryableError, match="give both"):
        extract(run, cog, start_datetime=MOMENT)


def test_properties_that_break_the_item_are_named(run: Run, cog: BlobRef) -> None:
    with pytest.raises(NonRetryableError, match="/properties/gsd"):
        extract(run, cog, properties={"gsd": "ten metres"})


@pytest.mark.parametrize(
    ("dtype", "nodata", "told"), [("float32", float("nan"), "nan"), ("uint8", 255.0, 255), ("int16", None, None)]
)
def test_kinds_of_values(
    run: Run, storage: Storage, tmp_path: Path, dtype: str, nodata: float | None, told: Any
) -> None:
    values = np.clip(terrain(128, bands=3), 0, 250).astype(dtype)
    if nodata is not None:
        values[:, :10] = nodata
    item = extract(run, keep(storage, write_cog(tmp_path / "a.tif", values, nodata=nodata), "hill"))["item"]
    IndependentItem.model_validate(item)
    bands = item["assets"]["data"]["raster:bands"]
    assert [band["data_type"] for band in bands] == [dtype] * 3
    assert all(band.get("nodata") == told for band in bands)


def test_a_raster_without_a_single_value(run: Run, storage: Storage, tmp_path: Path) -> None:
    path = write_cog(tmp_path / "a.tif", np.full((1, 64, 64), NODATA, "float32"), nodata=NODATA)
    output = extract(run, keep(storage, path, "hill"))
    assert output["item"]["assets"]["data"]["raster:bands"][0]["statistics"] == {"valid_percent": 0.0}
    picture = read_picture(storage, output)
    assert not np.asarray(picture)[..., 3].any()


def read_picture(storage: Storage, output: dict[str, Any]) -> Image.Image:
    thumbnail = BlobRef.model_validate(output["thumbnail"])
    with Image.open(storage.gdal_path(thumbnail.address)) as picture:
        assert picture.format == "WEBP"
        return picture.convert("RGBA")


def test_thumbnail_of_one_band(run: Run, storage: Storage, tmp_path: Path) -> None:
    values = terrain(1100)
    values[0, :550] = NODATA
    values[0, 600, 600] = 1e9
    cog = keep(storage, write_cog(tmp_path / "a.tif", values[:, :, :900], nodata=NODATA), "hill")
    picture = np.asarray(read_picture(storage, extract(run, cog)))
    assert picture.shape == (512, 419, 4)
    assert not picture[:250, :, 3].any(), "no data is transparent"
    assert picture[262:, :, 3].all()
    brightness = picture[262:, :, :3].astype(int).sum(axis=2)
    assert brightness.max() - brightness.min() > 300, "one wild value does not darken the rest"


def test_thumbnail_of_colours(run: Run, storage: Storage, tmp_path: Path) -> None:
    values = np.zeros((4, 64, 64), "uint16")
    values[0, :, :32] = 3000
    values[1, :32, :] = 3000
    values[2] = np.arange(64, dtype="uint16") * 40
    path = write_cog(tmp_path / "a.tif", values, descriptions=("red", "green", "blue", "nir"))
    picture = np.asarray(read_picture(storage, extract(run, keep(storage, path, "hill")))).astype(int)
    assert picture[48, 8, 0] > 200 > 60 > picture[48, 8, 1]
    assert picture[8, 56, 1] > 200 > 60 > picture[8, 56, 0]


def test_thumbnail_of_classes(run: Run, storage: Storage, tmp_path: Path) -> None:
    values = np.zeros((1, 64, 64), "uint8")
    values[0, :, 32:] = 7
    colours = {0: (0, 0, 255, 255), 7: (0, 160, 0, 255)}
    picture = np.asarray(
        read_picture(
            storage, extract(run, keep(storage, write_cog(tmp_path / "a.tif", values, colours=colours), "hill"))
        )
    ).astype(int)
    assert np.abs(picture[32, 8] - (0, 0, 255, 255)).max() < 20
    assert np.abs(picture[32, 56] - (0, 160, 0, 255)).max() < 20


def test_what_no_schema_knows_is_a_fault(run: Run, cog: BlobRef) -> None:
    item = extract(run, cog)["item"]
    assert find_faults({**item, "stac_extensions": ["https://example.org/x.json"]}) == [
        "/stac_extensions: there is no schema here for https://example.org/x.json; leave that extension out"
    ]
    assert find_faults({**item, "stac_version": "0.9"})
    assert find_faults([])
    for place, value, fault in (
        ("properties", {**item["properties"], "proj:shape": [1.5, 2]}, "/properties/proj:shape"),
        ("properties", {**item["properties"], "proj:nonsense": 1}, "/properties"),
        ("assets", {"data": {**item["assets"]["data"], "file:size": -1}}, "/assets/data/file:size"),
        (
            "assets",
            {"data": {**item["assets"]["data"], "raster:bands": [{"nodata": "x"}]}},
            "/assets/data/raster:bands",
        ),
    ):
        assert any(found.startswith(fault) for found in find_faults({**item, place: value}))


def test_collections_are_valid(run: Run, cog: BlobRef) -> None:
    item = extract(run, cog)["item"]
    result = run(
        "raster.stac_ensure_collection",
        collection_id="dem",
        title="Hills",
        license="CC-BY-4.0",
        keywords=["terrain"],
        providers=[{"name": "Us", "roles": ["producer"]}],
        items=[item],
    )
    assert isinstance(result.output, dict)
    collection = result.output["collection"]
    IndependentCollection.model_validate(collection)
    assert find_faults(collection) == []
    assert collection["extent"]["spatial"]["bbox"] == [item["bbox"]]
    assert collection["summaries"] == {"proj:code": ["EPSG:32633"]}
    assert [record.type for record in result.records] == ["stac_collection"]
    with pytest.raises(NonRetryableError, match="/license"):
        run("raster.stac_ensure_collection", collection_id="dem", license="my own!")


def test_who_judges_and_who_explains_agree(run: Run, cog: BlobRef) -> None:
    """Every place of an item, made wrong in every way: what jsonschema refuses is refused, with a place."""
    item = extract(run, cog, datetime=MOMENT)["item"]
    refused = 0
    # Two of each list will do: the others are checked like them.
    for path in (one for one in places_in(item) if one and all(isinstance(key, str) or key < 2 for key in one)):
        for wrong in (None, True, -1, 0.5, "", "x", [], [1], {}, {"type": "Polygon"}):
            broken = replaced(item, path, wrong)
            told = find_faults(broken)
            refused += bool(told)
            if told == []:
                assert all(explainer.is_valid(broken) for explainer in map(_explainer, schemas_of(broken)))
            assert all(one.startswith("/") for one in told)
    assert refused > 500


def schemas_of(item: dict[str, Any]) -> list[str]:
    return [f"https://schemas.stacspec.org/v{STAC_VERSION}/item-spec/json-schema/item.json", *item["stac_extensions"]]
