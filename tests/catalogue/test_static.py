"""The static catalogue: whoever writes, in whatever order, however often, its links lead to what is there."""

import random
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import orjson
import pystac
import pytest

from rmhdag.catalogue.static import CONTAINER, StaticCatalogue
from rmhdag.handlers.stac.validation import find_faults
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage

Files = dict[str, dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "gold" / CONTAINER


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(root=f"file://{tmp_path}"), "default")


def item(item_id: str, *, west: float = 10.0, moment: str = "2024-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    ring = [[west, 0.0], [west + 1, 0.0], [west + 1, 1.0], [west, 1.0], [west, 0.0]]
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": item_id,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": [west, 0.0, west + 1, 1.0],
        "properties": {"datetime": moment, "proj:code": "EPSG:4326", **more},
        "links": [{"rel": "via", "href": "https://example.org/origin"}, {"rel": "self", "href": "wrong.json"}],
        "assets": {"data": {"href": "https://example.org/a.tif"}},
    }


def collection(collection_id: str, description: str = "Terrain") -> dict[str, Any]:
    return {
        "type": "Collection",
        "stac_version": "1.1.0",
        "id": collection_id,
        "description": description,
        "license": "CC-BY-4.0",
        "extent": {"spatial": {"bbox": [[-180, -90, 180, 90]]}, "temporal": {"interval": [[None, None]]}},
        "links": [{"rel": "license", "href": "https://example.org/license"}],
    }


def files_in(folder: Path) -> Files:
    return {
        path.relative_to(folder).as_posix(): orjson.loads(path.read_bytes()) for path in sorted(folder.rglob("*.json"))
    }


def target(path: str, href: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / href).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def walk(files: Files, path: str = "catalog.json") -> Iterator[str]:
    """Items by the links that lead to them, each link checked both ways."""
    document = files[path]
    assert find_faults(document) == []
    rels = {link["rel"]: target(path, link["href"]) for link in document["links"]}
    assert rels["root"] == "catalog.json"
    assert "self" not in rels, "it would have to be absolute, and the catalogue could not be moved"
    for link in document["links"]:
        if link["rel"] in ("child", "item"):
            below = target(path, link["href"])
            up = {one["rel"]: target(below, one["href"]) for one in files[below]["links"]}
            if link["rel"] == "child":
                assert up["parent"] == path
                yield from walk(files, below)
            else:
                assert find_faults(files[below]) == []
                assert up["parent"] == up["collection"] == f"{below.split('/')[0]}/collection.json"
                assert "self" not in up
                yield files[below]["id"]


def ids_in(folder: Path) -> list[str]:
    found = list(walk(files_in(folder)))
    assert len(found) == len(set(found)), "an item is listed twice"
    return sorted(found)


def test_one_item(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage)
    assert catalogue.put_collection(collection("dem"))
    assert catalogue.put_item("dem", item("a"))
    assert sorted(files_in(folder)) == ["catalog.json", "dem/collection.json", "dem/items/a.json"]
    assert ids_in(folder) == ["a"]
    stored = files_in(folder)["dem/items/a.json"]
    assert stored["collection"] == "dem"
    assert {"rel": "via", "href": "https://example.org/origin"} in stored["links"]
    kept = files_in(folder)["dem/collection.json"]
    assert kept["extent"] == {
        "spatial": {"bbox": [[10.0, 0.0, 11.0, 1.0]]},
        "temporal": {"interval": [["2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"]]},
    }
    assert kept["summaries"] == {"proj:code": ["EPSG:4326"]}
    assert {"rel": "license", "href": "https://example.org/license"} in kept["links"]


def test_again_changes_no_byte(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage)

    def publish() -> None:
        catalogue.put_item("dem", item("a"), version=3)
        catalogue.put_collection(collection("dem"), version=4)

    publish()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    publish()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")} == before


def test_any_order_ends_alike(storage: Storage, tmp_path: Path) -> None:
    steps: list[tuple[str, Any, int]] = [
        ("collection", collection("dem", "old"), 1),
        ("collection", collection("dem", "new"), 9),
        ("item", item("a", west=1.0), 2),
        ("item", item("a", west=1.0, gsd=30), 5),
        ("item", item("a", west=1.0, gsd=10), 5),
        ("item", item("b", west=-20.0, moment="2020-06-01T00:00:00Z"), 3),
        ("item", item("gone", west=-19.0, moment="2021-06-01T00:00:00Z"), 4),
        ("remove", "gone", 6),
        ("item", item("back", west=-19.0), 8),
        ("remove", "back", 7),
    ]
    endings = []
    for seed in range(4):
        order = steps * 2
        random.Random(seed).shuffle(order)
        catalogue = StaticCatalogue(storage, container=f"c{seed}")
        for kind, what, version in order:
            if kind == "collection":
                catalogue.put_collection(what, version=version)
            elif kind == "item":
                catalogue.put_item("dem", what, version=version)
            else:
                catalogue.remove_item("dem", what, version=version)
        here = tmp_path / "gold" / f"c{seed}"
        assert ids_in(here) == ["a", "b", "back"]
        files = files_in(here)
        assert files["dem/collection.json"]["description"] == "new"
        catalogue.rebuild()
        endings.append(files_in(here))
    assert all(ending == endings[0] for ending in endings)


def test_an_older_item_comes_too_late(storage: Storage) -> None:
    catalogue = StaticCatalogue(storage)
    assert catalogue.put_item("dem", item("a", gsd=2), version=2)
    assert not catalogue.put_item("dem", item("a", gsd=1), version=1)
    assert catalogue.remove_item("dem", "a", version=3)
    assert not catalogue.put_item("dem", item("a", gsd=2), version=2)
    assert catalogue.find_item("dem", "a") is None
    assert catalogue.put_item("dem", item("a", gsd=4), version=4)
    assert not catalogue.remove_item("dem", "a", version=3)
    found = catalogue.find_item("dem", "a")
    assert found is not None
    assert found["properties"]["gsd"] == 4


def test_no_file_grows_with_the_collection(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage, page_links=2)
    names = [f"tile-{number}" for number in range(12)]
    for name in names:
        catalogue.put_item("dem", item(name))
    assert ids_in(folder) == sorted(names)
    for document in files_in(folder).values():
        assert sum(link["rel"] == "item" for link in document["links"]) <= 2
    for name in names[::2]:
        catalogue.remove_item("dem", name)
    assert ids_in(folder) == sorted(names[1::2])
    for name in names:
        catalogue.put_item("dem", item(name))
    assert ids_in(folder) == sorted(names)


def test_two_levels_of_pages(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage, page_links=1)
    alike = [name for name in map(str, range(2000)) if sha256(name.encode()).hexdigest().startswith("a3")]
    names = [*alike[:4], "1", "2"]
    for name in names:
        catalogue.put_item("dem", item(name))
    assert any(path.count("/") == 3 for path in files_in(folder)), "the test is to reach a page below a page"
    assert ids_in(folder) == sorted(names)
    before = files_in(folder)
    catalogue.rebuild()
    assert ids_in(folder) == sorted(names)
    assert set(files_in(folder)) >= {path for path in before if "/items/" in path}


def publish_by_many(storage: Storage, names: list[str], writers: int) -> list[BaseException]:
    """Several writers, each in an order of its own; every third item is removed by a newer entry."""
    failures: list[BaseException] = []

    def publish(seed: int) -> None:
        catalogue = StaticCatalogue(storage, page_links=3)
        order = list(enumerate(names))
        random.Random(seed).shuffle(order)
        try:
            for number, name in order:
                if number % 3 == 0:
                    catalogue.remove_item("dem", name, version=2)
                catalogue.put_item("dem", item(name), version=1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=publish, args=(seed,)) for seed in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_many_writers_at_once(storage: Storage, folder: Path) -> None:
    names = [f"tile-{number}" for number in range(24)]
    assert publish_by_many(storage, names, 4) == []
    assert ids_in(folder) == sorted(name for number, name in enumerate(names) if number % 3)


@pytest.mark.parametrize("store", ["azure", "s3"])
def test_many_writers_far_away(request: pytest.FixtureRequest, store: str) -> None:
    settings: StorageSettings = request.getfixturevalue(f"{store}_settings")
    far = open_storage(settings, "default")
    names = [f"tile-{number}" for number in range(5)]
    assert publish_by_many(far, names, 2) == []
    files = {info.address.path: orjson.loads(far.read(info.address)) for info in far.list(Zone.GOLD, CONTAINER)}
    found = sorted(walk(files))
    assert found == sorted(name for number, name in enumerate(names) if number % 3)


class Killed(BaseException):
    """The writer is gone."""


class Mortal(Storage):
    """Storage whose user dies before its n-th write."""

    writes_left = 0

    def write(self, address: BlobAddress, data: bytes, **more: Any) -> BlobRef:
        if self.writes_left == 0:
            raise Killed
        self.writes_left -= 1
        return super().write(address, data, **more)


def test_killed_between_any_two_files(storage: Storage, tmp_path: Path) -> None:
    """Each retried after its death, as the outbox does; another writer comes in between."""
    mortal = Mortal(storage._roots, storage._view)
    deaths = 0
    for writes in range(6):
        container = f"k{writes}"
        StaticCatalogue(storage, container=container, page_links=1).put_item("dem", item("first"), version=1)
        mortal.writes_left = writes
        try:
            StaticCatalogue(mortal, container=container, page_links=1).put_item("dem", item("b"), version=2)
        except Killed:
            deaths += 1
        StaticCatalogue(storage, container=container, page_links=1).put_item("dem", item("c"), version=3)
        StaticCatalogue(storage, container=container, page_links=1).put_item("dem", item("b"), version=2)
        assert ids_in(tmp_path / "gold" / container) == ["b", "c", "first"]
    assert deaths >= 3


def test_rebuilt_from_ruins(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage, page_links=3)
    names = [f"tile-{number}" for number in range(12)]
    catalogue.put_collection(collection("dem"))
    catalogue.put_collection({**collection("land"), "title": "Land cover"})
    for name in names:
        catalogue.put_item("dem", item(name, west=50.0))
    catalogue.put_item("land", item("x"))
    (folder / "catalog.json").write_text("{")
    (folder / "dem" / "collection.json").write_bytes(b"\x00")
    for page in (folder / "dem" / "pages").glob("*.json"):
        page.unlink()
    (folder / "dem" / "items" / "tile-7.json").write_text("[]")
    (folder / "dem" / "pages" / "zz.json").write_text("{}")
    rebuilt = catalogue.rebuild()
    assert rebuilt.collections == 2
    assert rebuilt.items == 12
    assert any("tile-7.json is damaged" in problem for problem in rebuilt.problems)
    assert any("collection.json is damaged" in problem for problem in rebuilt.problems)
    (folder / "dem" / "items" / "tile-7.json").unlink()
    assert ids_in(folder) == sorted([*(set(names) - {"tile-7"}), "x"])
    assert files_in(folder)["dem/collection.json"]["extent"]["spatial"]["bbox"] == [[50.0, 0.0, 51.0, 1.0]]
    assert files_in(folder)["land/collection.json"]["title"] == "Land cover"
    assert catalogue.rebuild().problems == ()


def test_a_damaged_file_is_named(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage)
    catalogue.put_item("dem", item("a"))
    (folder / "dem" / "collection.json").write_text("oh")
    with pytest.raises(Exception, match=r"gold/catalogue/dem/collection\.json is damaged.*stac\.rebuild"):
        catalogue.put_item("dem", item("b"))


@pytest.mark.parametrize(
    "strange", ["a/b", "../../x", "Ünïcode 1", ".", "-a", "x" * 300, "a\\b", "CON.", "catalog.json"]
)
def test_ids_that_are_no_file_names(storage: Storage, folder: Path, strange: str) -> None:
    catalogue = StaticCatalogue(storage)
    catalogue.put_item("dem", item(strange))
    catalogue.put_item(strange, item("plain"))
    assert ids_in(folder) == sorted([strange, "plain"])
    found = catalogue.find_item("dem", strange)
    assert found is not None
    assert sorted(catalogue.collection_ids()) == sorted(["dem", strange])


def test_addresses_outside_the_zone_stay_outside(storage: Storage, tmp_path: Path) -> None:
    StaticCatalogue(storage).put_item("..", item("../../../../etc/x"))
    written = {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*.json")}
    assert written == {("gold", CONTAINER)}
    assert storage.containers(Zone.GOLD) == (CONTAINER,)


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([[170, 0, -170, 1], [175, -5, -178, 0]], [170.0, -5.0, -170.0, 1.0]),
        ([[170, 0, -170, 1], [0, 0, 10, 1]], [-180.0, 0.0, 180.0, 1.0]),
        ([[10, 20, 1, 11, 21, 2], [12, 0, 13, 1]], [10.0, 0.0, 13.0, 21.0]),
    ],
)
def test_extents_over_the_antimeridian(storage: Storage, boxes: list[list[float]], expected: list[float]) -> None:
    for order in (boxes, boxes[::-1]):
        catalogue = StaticCatalogue(storage, container=f"c{order is boxes}".lower())
        for number, bbox in enumerate(order):
            catalogue.put_item("c", {**item(f"i{number}"), "bbox": bbox})
        kept = catalogue.find_collection("c")
        assert kept is not None
        assert kept["extent"]["spatial"]["bbox"] == [expected]


def stored_item(storage: Storage, item_id: str = "a") -> dict[str, Any]:
    """With a file of ours, whose name must be quoted, and one elsewhere."""
    blob = storage.write(BlobAddress(Zone.SILVER, "cogs", f"{item_id}/the cog #1.tif"), b"pixels")
    made = item(item_id)
    made["assets"]["ours"] = {"href": storage.url(blob.address)}
    return made


def test_a_catalogue_can_be_moved_with_its_files(storage: Storage, tmp_path: Path, folder: Path) -> None:
    catalogue = StaticCatalogue(storage)
    made = stored_item(storage)
    catalogue.put_collection(collection("dem"))
    catalogue.put_item("dem", made, version=1)
    assert str(tmp_path) not in (folder / "dem" / "items" / "a.json").read_text()
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    tmp_path.mkdir()
    opened = pystac.Catalog.from_file(str(moved / "gold" / CONTAINER / "catalog.json"))
    (one,) = opened.get_items(recursive=True)
    href = one.assets["ours"].get_absolute_href()
    assert href is not None
    assert Path(unquote(href)).read_bytes() == b"pixels"
    assert one.assets["data"].href == "https://example.org/a.tif"
    here = open_storage(StorageSettings(root=f"file://{moved}"), "default")
    found = StaticCatalogue(here).find_item("dem", "a")
    assert found is not None
    assert here.address_of(found["assets"]["ours"]["href"]) == storage.address_of(made["assets"]["ours"]["href"])


def test_whoever_reads_an_item_gets_what_was_handed_over(storage: Storage) -> None:
    catalogue = StaticCatalogue(storage)
    made = stored_item(storage)
    made["assets"]["theirs"] = {"href": "./beside.tif"}
    catalogue.put_item("dem", made)
    found = catalogue.find_item("dem", "a")
    assert found is not None
    assert found["assets"]["ours"] == made["assets"]["ours"]
    (listed,) = [one for _, one in catalogue.items("dem")]
    assert listed == found


def test_rebuild_makes_old_addresses_relative_and_changes_nothing_else(storage: Storage, folder: Path) -> None:
    catalogue = StaticCatalogue(storage)
    made = stored_item(storage)
    catalogue.put_item("dem", made, version=7)
    path = folder / "dem" / "items" / "a.json"
    now = path.read_bytes()
    old = orjson.loads(now)
    old["assets"] = made["assets"]
    path.write_bytes(orjson.dumps(old))
    assert catalogue.rebuild().items == 1
    assert path.read_bytes() == now


def test_zones_that_lie_apart_keep_their_addresses(tmp_path: Path) -> None:
    settings = StorageSettings(root=str(tmp_path / "a"), zones={Zone.SILVER: str(tmp_path / "b" / "silver")})
    storage = open_storage(settings, "default")
    catalogue = StaticCatalogue(storage)
    made = stored_item(storage)
    catalogue.put_item("dem", made)
    written = orjson.loads((tmp_path / "a" / "gold" / CONTAINER / "dem" / "items" / "a.json").read_bytes())
    assert written["assets"]["ours"]["href"] == made["assets"]["ours"]["href"]


def test_a_file_s_time_does_not_count_for_the_extent(storage: Storage) -> None:
    catalogue = StaticCatalogue(storage)
    undated = item("b", moment="2026-11-17T00:00:00Z")
    undated["properties"]["rmhdag:datetime_source"] = "file"
    catalogue.put_item("dem", undated)
    found = catalogue.find_collection("dem")
    assert found is not None
    assert found["extent"]["temporal"]["interval"] == [[None, None]]
    catalogue.put_item("dem", item("a"))
    for _ in range(2):
        found = catalogue.find_collection("dem")
        assert found is not None
        assert found["extent"]["temporal"]["interval"] == [["2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"]]
        catalogue.rebuild()
