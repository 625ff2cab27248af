"""A catalogue that is looked after: what is lost or damaged comes back as it was, or somebody is told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmhdag.catalogue.layout import item_links
from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.handlers import HandlerResult
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import Storage
from tests.handlers.stac.conftest import Run
from tests.handlers.stac.rasters import NODATA, keep, terrain, write_cog
from tests.handlers.stac.test_registration import described, output_of, publish

HOMES = ("kc1", "kc2", "kc3")
Item = dict[str, Any]


def test_repair_finds_and_mends(run: Run, storage: Storage, tmp_path: Path) -> None:
    catalogue = StaticCatalogue(storage)
    for name in ("box", "damaged", "gone", "picture", "sound", "unlisted"):
        publish(storage, run("raster.stac_register_item", item=described(run, storage, tmp_path, name)["item"]))
    before = {name: catalogue.find_item("dem", name) for name in ("box", "damaged", "picture")}
    folder = tmp_path / "storage" / "gold" / "catalogue" / "dem"
    (folder / "items" / "damaged.json").write_text("{oh")
    (folder / "items" / "gone.json").write_text("")
    storage.delete(BlobAddress(Zone.SILVER, "cogs", "gone/gone-0123456789abcdef.tif"))
    text = (folder / "items" / "box.json").read_text()
    (folder / "items" / "box.json").write_text(text.replace('"bbox": [', '"bbox": [0,', 1).replace("../coll", "coll"))
    picture = before["picture"]
    assert picture is not None
    storage.delete(storage.address_of(picture["assets"]["thumbnail"]["href"]))
    collection = folder / "collection.json"
    collection.write_text(collection.read_text().replace("./items/unlisted.json", "./items/nowhere.json"))
    result = run("stac.repair_items", collection_id="dem")
    output = output_of(result)
    assert output["checked"] == 6
    assert output["sound"] == 1
    repairs = {one["item_id"]: one["repairs"] for one in output["repaired"]}
    assert repairs["box"] == ["links", "bbox"]
    assert repairs["unlisted"] == ["listed in its collection"]
    assert repairs["damaged"] == ["recreated: its file was damaged"]
    assert "thumbnail" in repairs["picture"][0]
    (unresolved,) = output["unresolved"]
    assert unresolved["item_id"] == "gone"
    assert "process its source again" in unresolved["problem"]
    publish(storage, result)
    assert {name: catalogue.find_item("dem", name) for name in before} == before
    assert catalogue.is_listed("dem", "unlisted")
    again = output_of(run("stac.repair_items", collection_id="dem"))
    assert (again["sound"], again["repaired"], again["unresolved_count"]) == (5, [], 1)


def test_rebuild_from_cogs(run: Run, storage: Storage, tmp_path: Path) -> None:
    catalogue = StaticCatalogue(storage)
    words = {"datetime": "2011-01-01T00:00:00Z", "properties": {"title": "Words of people"}}
    for name in ("kept", "lost", "withdrawn"):
        cog = keep(storage, write_cog(tmp_path / "a.tif", terrain(64)), name)
        made = run(
            "raster.extract_stac_metadata",
            cog=cog.model_dump(mode="json"),
            collection_id="dem",
            item_id=name,
            **words,
        )
        publish(storage, run("raster.stac_register_item", item=output_of(made)["item"]))
    keep(storage, write_cog(tmp_path / "a.tif", terrain(64)), "stray")
    before = catalogue.find_item("dem", "lost")
    catalogue.remove_item("dem", "withdrawn")
    folder = tmp_path / "storage" / "gold" / "catalogue"
    (folder / "dem" / "items" / "lost.json").unlink()
    (folder / "dem" / "collection.json").write_text("no JSON")
    result = run("stac.rebuild")
    output = output_of(result)
    assert output["remade"] == ["lost"]
    assert output["problem_count"] == 1
    assert (output["unclaimed"], output["unclaimed_count"]) == (["stray"], 1)
    publish(storage, result)
    assert catalogue.find_item("dem", "lost") == before
    assert catalogue.find_item("dem", "withdrawn") is None
    everything = run("stac.rebuild", republish=True, from_cogs=False)
    assert sorted(record.item["id"] for record in everything.records if record.type == "stac_item") == ["kept", "lost"]


@pytest.mark.parametrize("handler", ["stac.rebuild", "stac.repair_items"])
def test_what_is_made_again_keeps_its_date(run: Run, storage: Storage, tmp_path: Path, handler: str) -> None:
    item = described(run, storage, tmp_path, file_time="2020-09-13T12:26:40Z")["item"]
    publish(storage, run("raster.stac_register_item", item=item))
    catalogue = StaticCatalogue(storage)
    before = catalogue.find_item("dem", "hill")
    file_of(tmp_path, "hill").write_text("{broken")
    publish(storage, run(handler, collection_id="dem"))
    assert catalogue.find_item("dem", "hill") == before


def published(run: Run, storage: Storage, folder: Path, number: int, collection_id: str = "dem", **more: Any) -> Item:
    """An item `scene` of a raster like no other."""
    cog = keep(storage, write_cog(folder / "a.tif", terrain(64) + number), "scene", f"{number:016x}")
    given = {"cog": cog.model_dump(mode="json"), "collection_id": collection_id, "item_id": "scene", **more}
    item: Item = output_of(run("raster.extract_stac_metadata", **given))["item"]
    publish(storage, run("raster.stac_register_item", item=item))
    return item


def forget_data(folder: Path) -> None:
    """Footprints as earlier versions have written them."""
    for path in folder.rglob("*.footprint.geojson"):
        said = json.loads(path.read_text())
        del said["data"]
        path.write_text(json.dumps(said))


def test_collections_with_the_same_item_id_keep_their_own_rasters(run: Run, storage: Storage, tmp_path: Path) -> None:
    catalogue = StaticCatalogue(storage)
    for number, home in enumerate(HOMES):
        published(run, storage, tmp_path, number, home)
    before = [catalogue.find_item(home, "scene") for home in HOMES]
    file_of(tmp_path, "scene", "kc1").write_text("{broken")
    file_of(tmp_path, "scene", "kc2").unlink()
    publish(storage, run("stac.repair_items", collection_id="kc1"))
    rebuilt = run("stac.rebuild", collection_id="kc2")
    publish(storage, rebuilt)
    assert output_of(rebuilt)["remade_count"] == 1
    assert [catalogue.find_item(home, "scene") for home in HOMES] == before


def test_which_revision_was_shown_is_not_guessed(run: Run, storage: Storage, tmp_path: Path) -> None:
    first = published(run, storage, tmp_path, 1)
    published(run, storage, tmp_path, 2)
    publish(storage, run("raster.stac_register_item", item=first))
    file = file_of(tmp_path, "scene")
    file.unlink()
    rebuilt = run("stac.rebuild", collection_id="dem")
    assert rebuilt.records == ()
    (problem,) = output_of(rebuilt)["problems"]
    file.write_text("{broken")
    repaired = run("stac.repair_items", collection_id="dem")
    assert repaired.records == ()
    (unresolved,) = output_of(repaired)["unresolved"]
    for told in (problem, unresolved["problem"]):
        assert "0000000000000001.tif" in told
        assert "0000000000000002.tif" in told
        assert "Roll its asset back" in told


@pytest.mark.parametrize("earlier_version", [False, True])
def test_an_item_that_can_be_read_tells_its_files(
    run: Run, storage: Storage, tmp_path: Path, earlier_version: bool
) -> None:
    first = published(run, storage, tmp_path, 1, properties={"title": "One"})
    published(run, storage, tmp_path, 2, properties={"title": "Two"})
    if earlier_version:
        forget_data(tmp_path)
    file_of(tmp_path, "scene").write_text(json.dumps(first))
    storage.delete(storage.address_of(first["assets"]["thumbnail"]["href"]))
    (item,) = items_in(run("stac.repair_items", collection_id="dem"))
    assert (item["assets"]["data"], item["properties"]) == (first["assets"]["data"], first["properties"])


def test_words_of_a_lost_footprint_are_in_the_item(run: Run, storage: Storage, tmp_path: Path) -> None:
    item = published(run, storage, tmp_path, 1, datetime="2011-01-01T00:00:00Z", properties={"title": "One"})
    storage.delete(storage.address_of(item["assets"]["footprint"]["href"]))
    assert items_in(run("stac.repair_items", collection_id="dem")) == [item]


def test_an_item_registered_in_another_collection_is_made_again_there(
    run: Run, storage: Storage, tmp_path: Path
) -> None:
    item = published(run, storage, tmp_path, 1, properties={"title": "One"})
    publish(storage, run("raster.stac_register_item", item=item, collection_id="other"))
    storage.delete(storage.address_of(item["assets"]["thumbnail"]["href"]))
    (made,) = items_in(run("stac.repair_items", collection_id="other"))
    assert (made["collection"], made["properties"]) == ("other", item["properties"])


def test_footprints_of_earlier_versions_belong_to_the_only_cog(run: Run, storage: Storage, tmp_path: Path) -> None:
    item = published(run, storage, tmp_path, 1)
    forget_data(tmp_path)
    file_of(tmp_path, "scene").unlink()
    rebuilt = run("stac.rebuild", collection_id="dem")
    assert items_in(rebuilt) == [item]
    forget_data(tmp_path)
    keep(storage, write_cog(tmp_path / "b.tif", terrain(64)), "scene")
    assert "files do not tell" in output_of(run("stac.rebuild", collection_id="dem"))["problems"][0]


def test_two_footprints_that_say_the_same_are_one(run: Run, storage: Storage, tmp_path: Path) -> None:
    item = published(run, storage, tmp_path, 1)
    footprint = storage.address_of(item["assets"]["footprint"]["href"])
    said = {key: value for key, value in json.loads(storage.read(footprint, max_bytes=10**6)).items() if key != "data"}
    earlier = footprint._replace(path="scene/scene-earlier.footprint.geojson")
    storage.write(earlier, json.dumps(said).encode())
    file_of(tmp_path, "scene").unlink()
    assert items_in(run("stac.rebuild", collection_id="dem")) == [item]


def test_what_nobody_has_claimed_is_not_published(run: Run, storage: Storage, tmp_path: Path) -> None:
    published(run, storage, tmp_path, 1)
    keep(storage, write_cog(tmp_path / "b.tif", terrain(64)), "converted")
    rebuilt = run("stac.rebuild", collection_id="dem")
    assert rebuilt.records == ()
    assert (output_of(rebuilt)["unclaimed"], output_of(rebuilt)["problem_count"]) == (["converted"], 0)


def test_a_cog_that_was_replaced_is_not_taken_for_the_one_described(run: Run, storage: Storage, tmp_path: Path) -> None:
    published(run, storage, tmp_path, 1)
    keep(storage, write_cog(tmp_path / "b.tif", terrain(64)), "scene", f"{1:016x}")
    file_of(tmp_path, "scene").unlink()
    assert "is not the file any more" in output_of(run("stac.rebuild"))["problems"][0]


@pytest.mark.parametrize(
    ("west", "columns", "bbox"),
    [
        (150.0, [(10, 30), (150, 190)], [153.8, -15.6, -133.8, 10.0]),
        (150.0, [(0, 200)], [150.0, -15.6, -130.0, 10.0]),
        (-100.0, [(10, 30), (150, 190)], [-96.2, -15.6, -23.8, 10.0]),
    ],
    ids=["two-islands", "one-over-it", "far-from-it"],
)
def test_boxes_that_are_right_are_left_alone(
    run: Run, storage: Storage, tmp_path: Path, west: float, columns: list[tuple[int, int]], bbox: list[float]
) -> None:
    values = np.full((1, 64, 200), NODATA, "float32")
    for first, last in columns:
        values[..., first:last] = 1
    path = write_cog(tmp_path / "a.tif", values, crs="EPSG:4326", west=west, north=10.0, pixel=0.4, nodata=NODATA)
    given = {
        "cog": keep(storage, path, "islands").model_dump(mode="json"),
        "collection_id": "dem",
        "item_id": "islands",
    }
    item = output_of(run("raster.extract_stac_metadata", **given))["item"]
    assert item["bbox"] == pytest.approx(bbox, abs=0.1)
    publish(storage, run("raster.stac_register_item", item=item))
    assert output_of(run("stac.repair_items", collection_id="dem"))["sound"] == 1
    file = file_of(tmp_path, "islands")
    for wrong in ([-180.0, -90.0, 180.0, 90.0], [170.0, *item["bbox"][1:]], [0.0, "x", 1.0, None]):
        file.write_text(json.dumps({**item, "links": item_links(item), "bbox": wrong}))
        (repaired,) = items_in(run("stac.repair_items", collection_id="dem"))
        assert repaired["bbox"] != wrong


@pytest.mark.parametrize(
    ("geometry", "sound", "unresolved"), [(None, 1, 0), ({"type": "MultiPolygon", "coordinates": []}, 0, 1)]
)
def test_items_that_lie_nowhere(
    run: Run, storage: Storage, tmp_path: Path, geometry: Item | None, sound: int, unresolved: int
) -> None:
    item = {**published(run, storage, tmp_path, 1), "geometry": geometry}
    StaticCatalogue(storage).put_item("dem", item)
    told = output_of(run("stac.repair_items", collection_id="dem"))
    assert (told["sound"], told["unresolved_count"]) == (sound, unresolved)


def items_in(result: HandlerResult) -> list[Item]:
    return [record.item for record in result.records if record.type == "stac_item"]


def file_of(folder: Path, item_id: str, collection_id: str = "dem") -> Path:
    return folder / "storage" / "gold" / "catalogue" / collection_id / "items" / f"{item_id}.json"
