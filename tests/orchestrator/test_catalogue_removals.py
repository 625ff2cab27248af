"""Items that people take out of the catalogue: gone from what is shown, written down, and not coming back by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.orchestrator.duties.catalogue import Relay, run_once
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.store import catalogue_removals, crash_points
from rmhdag.store.catalogue_removals import NotInCatalogue, Removal, ShownByAsset, remove_from_catalogue
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_catalogue import put


@pytest.fixture
def settings(tmp_path: Path) -> StorageSettings:
    return StorageSettings(str(tmp_path / "blobs"))


@pytest.fixture
def shown(settings: StorageSettings) -> StaticCatalogue:
    return StaticCatalogue(open_storage(settings, "default"))


@pytest.fixture
def filled(platform: Platform, settings: StorageSettings) -> Relay:
    """Three items of a collection, the last of them shown by an asset, and one of another collection."""
    relay = Relay(CatalogueKind.STATIC, settings)
    put(platform, "", 1)
    for item_id in ("a", "b", "owned"):
        put(platform, item_id, 1)
    put(platform, "a", 1, collection_id="other")
    platform.conn.execute(
        "UPDATE dag_catalogue_entries SET asset_id = %s, revision = 1 WHERE item_id = 'owned'", ["f" * 32]
    )
    run_once(platform.conn, relay)
    return relay


def listed(shown: StaticCatalogue, collection_id: str = "c") -> list[str]:
    return [item["id"] for _, item in shown.items(collection_id) if item is not None]


def audits(platform: Platform) -> list[Any]:
    query = (
        "SELECT actor, action, subject, before, reason FROM dag_audit WHERE action = 'catalogue.remove' ORDER BY seq"
    )
    return platform.conn.execute(query).fetchall()


class Died(Exception):
    pass


@pytest.mark.parametrize("moment", ["before", "after"])
def test_who_dies_at_the_commit_has_removed_the_item_or_not(platform: Platform, filled: Relay, moment: str) -> None:
    def die() -> None:
        raise Died

    crash_points.arm(f"remove_from_catalogue.{moment}_commit", die)
    with pytest.raises(Died):
        remove_from_catalogue(platform.conn, "default", "c", "a", actor="ada")
    assert len(audits(platform)) == (moment == "after")
    if moment == "before":
        remove_from_catalogue(platform.conn, "default", "c", "a", actor="ada")
    else:
        with pytest.raises(NotInCatalogue):
            remove_from_catalogue(platform.conn, "default", "c", "a", actor="ada")
    assert len(audits(platform)) == 1


def test_one_item(platform: Platform, filled: Relay, shown: StaticCatalogue) -> None:
    done = remove_from_catalogue(platform.conn, "default", "c", "a", actor="ada", reason="wrong place")
    assert done == Removal(1, 0, ["a"])
    assert run_once(platform.conn, filled) == 1
    assert (listed(shown), listed(shown, "other")) == (["b", "owned"], ["a"])
    assert shown.is_removed("c", "a")
    before = {"items": ["a"], "count": 1}
    assert audits(platform) == [("ada", "catalogue.remove", "c/a", before, "wrong place")]
    with pytest.raises(NotInCatalogue):
        remove_from_catalogue(platform.conn, "default", "c", "a", actor="ada")
    put(platform, "a", 2)
    run_once(platform.conn, filled)
    assert listed(shown) == ["a", "b", "owned"]


def test_all_of_a_collection_in_bites(
    platform: Platform, filled: Relay, shown: StaticCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_removals, "BITE", 1)
    tried = remove_from_catalogue(platform.conn, "default", "c", None, actor="ada", dry_run=True)
    assert (tried.removed, tried.kept, audits(platform)) == (2, 1, [])
    assert remove_from_catalogue(platform.conn, "default", "c", None, actor="ada") == Removal(2, 1, ["a", "b"])
    run_once(platform.conn, filled)
    assert (listed(shown), listed(shown, "other")) == (["owned"], ["a"])
    assert shown.find_collection("c") is not None
    assert len(audits(platform)) == 1
    assert remove_from_catalogue(platform.conn, "default", "c", None, actor="ada") == Removal(0, 1, [])
    assert len(audits(platform)) == 1


def test_what_an_asset_shows_and_what_is_another_s_stays(
    platform: Platform, filled: Relay, shown: StaticCatalogue
) -> None:
    with pytest.raises(ShownByAsset, match="belongs to asset ffff"):
        remove_from_catalogue(platform.conn, "default", "c", "owned", actor="ada")
    for namespace, collection_id, item_id in [("theirs", "c", "a"), ("theirs", "c", None), ("default", "d", None)]:
        with pytest.raises(NotInCatalogue):
            remove_from_catalogue(platform.conn, namespace, collection_id, item_id, actor="ada")
    assert run_once(platform.conn, filled) == 0
    assert listed(shown) == ["a", "b", "owned"]
    assert audits(platform) == []
