"""A catalogue that is looked after: what is lost or damaged comes back as it was, or somebody is told."""

from pathlib import Path

import pytest

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import Storage
from rmhdag.storage.catalogue import StaticCatalogue
from tests.handlers.stac.conftest import Run
from tests.handlers.stac.rasters import keep, terrain, write_cog
from tests.handlers.stac.test_registration import described, output_of, publish


def test_repair_finds_and_mends(run: Run, storage: Storage, tmp_path: Path) -> None:
    catalogue = StaticCatalogue(storage)
    for name in ("box", "damaged", "gone", "picture", "sound", "unlisted"):
        publish(storage, run("raster.stac_register_item", item=described(run, storage, tmp_path, name)["item"]))
    before = {name: catalogue.find_item("dem", name) for name in ("box", "damaged", "picture")}
    folder = tmp_path / "blobs" / "gold" / "catalogue" / "dem"
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
    mended = {one["item_id"]: one["mended"] for one in output["repaired"]}
    assert mended["box"] == ["links", "bbox"]
    assert mended["unlisted"] == ["listed in its collection"]
    assert mended["damaged"] == ["made again: its file was damaged"]
    assert "thumbnail" in mended["picture"][0]
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
    folder = tmp_path / "blobs" / "gold" / "catalogue"
    (folder / "dem" / "items" / "lost.json").unlink()
    (folder / "dem" / "collection.json").write_text("no JSON")
    result = run("stac.rebuild")
    output = output_of(result)
    assert output["remade"] == ["lost"]
    assert output["problem_count"] == 2
    assert any("stray" in problem and "give `collection_id`" in problem for problem in output["problems"])
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


def file_of(folder: Path, item_id: str, collection_id: str = "dem") -> Path:
    return folder / "blobs" / "gold" / "catalogue" / collection_id / "items" / f"{item_id}.json"
