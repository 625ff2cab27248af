"""What is handed over to be published: items that are valid, files that are there, all or nothing."""

from pathlib import Path
from typing import Any

import pytest

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.handlers import HandlerResult, NonRetryableError
from rmhdag.handlers.stac.containers import item_id_for
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage
from tests.handlers.stac.conftest import Run
from tests.handlers.stac.rasters import keep, terrain, write_cog

Output = dict[str, Any]


def described(run: Run, storage: Storage, folder: Path, item_id: str = "hill", **more: Any) -> Output:
    cog = keep(storage, write_cog(folder / "a.tif", terrain(64)), item_id)
    given = {"cog": cog.model_dump(mode="json"), "collection_id": "dem", "item_id": item_id, **more}
    return output_of(run("raster.extract_stac_metadata", **given))


def output_of(result: HandlerResult) -> Output:
    assert isinstance(result.output, dict)
    return result.output


def publish(storage: Storage, result: HandlerResult) -> None:
    """What the publish lane does in the end, with the catalogue's part of the records."""
    catalogue = StaticCatalogue(storage)
    for record in result.records:
        if record.type == "stac_item":
            catalogue.put_item(record.collection_id, record.item)
        elif record.type == "stac_collection":
            catalogue.put_collection(record.collection)


def test_one_item(run: Run, storage: Storage, tmp_path: Path) -> None:
    made = described(run, storage, tmp_path)
    result = run("raster.stac_register_item", item=made["item"], thumbnail=made["thumbnail"])
    kinds = [(record.type, getattr(record, "role", None)) for record in result.records]
    assert kinds == [("stac_item", None), ("blob", "thumbnail"), ("blob", "footprint")]
    assert output_of(result) == {"item_id": "hill", "collection_id": "dem"}


def test_files_that_are_not_there_are_not_published(run: Run, storage: Storage, tmp_path: Path) -> None:
    made = described(run, storage, tmp_path)
    thumbnail = BlobRef.model_validate(made["thumbnail"])
    storage.write(thumbnail.address, b"other")
    with pytest.raises(NonRetryableError, match=r"asset 'thumbnail' of item 'hill' has 5 bytes.*replaced"):
        run("raster.stac_register_item", item=made["item"])
    storage.delete(thumbnail.address)
    with pytest.raises(NonRetryableError, match="asset 'thumbnail' of item 'hill' does not exist"):
        run("raster.stac_register_item", item=made["item"])


def test_an_invalid_item_is_refused(run: Run, storage: Storage, tmp_path: Path) -> None:
    item = described(run, storage, tmp_path)["item"]
    with pytest.raises(NonRetryableError, match=r"'hill' is not valid: .*geometry"):
        run("raster.stac_register_item", item={**item, "geometry": {"type": "Circle"}})
    with pytest.raises(NonRetryableError, match="names no collection"):
        run("raster.stac_register_item", item={key: value for key, value in item.items() if key != "collection"})


def test_the_items_behind_each_warning_are_named(run: Run, storage: Storage, tmp_path: Path) -> None:
    codes = {"b": ["RASTER_EMPTY", "RASTER_SOUTH_UP"], "a": ["RASTER_EMPTY", "RASTER_EMPTY"], "c": []}
    results = [
        {**described(run, storage, tmp_path, name), "warning_codes": found, "item_id": name}
        for name, found in codes.items()
    ]
    warned = output_of(run("raster.stac_register_items", results=results))["warned"]
    assert warned == {"RASTER_EMPTY": ["b", "a"], "RASTER_SOUTH_UP": ["b"]}
    made_before = [{key: value for key, value in results[0].items() if key != "warning_codes"}]
    assert output_of(run("raster.stac_register_items", results=made_before))["warned"] == {}


def test_many_items(run: Run, storage: Storage, tmp_path: Path) -> None:
    results = [described(run, storage, tmp_path, name) for name in ("b", "a")]
    result = run("raster.stac_register_items", results=results, expected=2)
    assert output_of(result)["item_ids"] == ["a", "b"]
    assert len(result.records) == 6
    with pytest.raises(NonRetryableError, match="'b' occurs twice"):
        run("raster.stac_register_items", results=[*results, results[0]])
    failures = [{"node_id": "files__2", "error": "no CRS"}]
    with pytest.raises(NonRetryableError, match=r"1 of 3 files failed, more than the 10 %.*files__2: no CRS"):
        run("raster.stac_register_items", results=results, expected=3, failures=failures, most_failed_percent=10)
    accepted = run("raster.stac_register_items", results=results, expected=3, failures=failures, most_failed_percent=34)
    assert output_of(accepted)["failed"] == 1
    gathered = {"results": results, "count": 2, "failures": failures}
    whole = run("raster.stac_register_items", gathered=gathered, expected=3, most_failed_percent=34)
    assert (whole.records, whole.output) == (accepted.records, accepted.output)
    together = run("raster.stac_register_items", results=results, collection={"collection_id": "hills"})
    assert [record.type for record in together.records].count("stac_collection") == 1
    assert {record.collection_id for record in together.records if record.type == "stac_item"} == {"hills"}
    with pytest.raises(NonRetryableError, match="give `items`, or `results`"):
        run("raster.stac_register_items")
    assert output_of(run("raster.stac_register_items", items=[]))["registered"] == 0


def test_a_container_is_listed_in_pages(run: Run, storage: Storage) -> None:
    for name in ("b.tif", "a.TIFF", "deep/c.tif", "notes.txt", "skip/d.tif"):
        storage.write(BlobAddress(Zone.BRONZE, "in", name), b"x" * 10)
    storage.write(BlobAddress(Zone.BRONZE, "in", "large.tif"), b"x" * 99)
    first = output_of(run("stac.list_raster_files", container_name="in", limit=2, most_bytes=50))
    assert [file["blob_name"] for file in first["files"]] == ["a.TIFF", "b.tif"]
    assert first["truncated"]
    assert first["next_after"] == "b.tif"
    rest = output_of(run("stac.list_raster_files", container_name="in", after="b.tif", pattern="[!s]*"))
    assert [file["blob_name"] for file in rest["files"]] == ["deep/c.tif", "large.tif"]
    assert not rest["truncated"]
    assert rest["files"][1].keys() == {"container_name", "blob_name", "zone", "item_id", "size_bytes", "modified_at"}
    assert output_of(run("stac.list_raster_files", container_name="nothing"))["files"] == []
    with pytest.raises(NonRetryableError, match="has no container 'nothing': there are in"):
        run("stac.list_raster_files", container_name="nothing", allow_empty=False)
    with pytest.raises(NonRetryableError, match=r"no raster in bronze/in fits: .* ends with \.jp2"):
        run("stac.list_raster_files", container_name="in", suffixes=[".jp2"], allow_empty=False)


def test_paths_give_ids_that_do_not_meet() -> None:
    paths = ["a.tif", "a.tiff", "a.TIF", "x/a.tif", "x-a.tif", "x a.tif", "é.tif", "è.tif", ".tif", "y" * 300 + ".tif"]
    ids = [item_id_for(path) for path in paths]
    assert len(set(ids)) == len(paths)
    assert ids[0] == "a"
    assert item_id_for(f"{ids[3]}.tif") != ids[3], "a file that is called like another's id"


def test_a_container_is_catalogued_as_it_is(run: Run, storage: Storage, tmp_path: Path) -> None:
    for name, driver in (("one", "COG"), ("two", "GTiff")):
        path = write_cog(tmp_path / f"{name}.tif", terrain(600), driver=driver)
        storage.upload(path, BlobAddress(Zone.BRONZE, "in", f"{name}.tif"))
    storage.write(BlobAddress(Zone.BRONZE, "in", "zero.tif"), b"")
    words = {"collection_id": "found", "license": "CC0-1.0"}
    with pytest.raises(NonRetryableError, match=r"1 of 3 files cannot be described.*zero\.tif"):
        run("stac.catalog_container", container_name="in", collection=words)
    result = run("stac.catalog_container", container_name="in", collection=words, most_failed_percent=50)
    assert output_of(result)["registered"] == 2
    assert [failure["blob_name"] for failure in output_of(result)["failures"]] == ["zero.tif"]
    roles = [record.role for record in result.records if record.type == "blob"]
    assert roles == ["data", "thumbnail", "footprint"] * 2
    publish(storage, result)
    kept = StaticCatalogue(storage).find_item("found", "two")
    assert kept is not None
    assert kept["assets"]["data"]["type"] == "image/tiff; application=geotiff"
    assert [info.address.path for info in storage.list(Zone.BRONZE, "in")] == ["one.tif", "two.tif", "zero.tif"]
