"""Each namespace has a catalogue of its own: equal ids of two namespaces never meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.records import AnyRecord
from rmhdag.orchestrator.duties.catalogue import Relay, run_once
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.store.catalogue_removals import NotInCatalogue, remove_from_catalogue
from rmhdag.testing import HandlerBench
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import collection, item, one_task, report, rows

NAMESPACES = ("default", "alpha", "beta")


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


@pytest.fixture
def settings(tmp_path: Path) -> StorageSettings:
    return StorageSettings(str(tmp_path / "storage"))


def publish(platform: Platform, namespace: str, *records: AnyRecord) -> str:
    seat = platform.seat()
    job_id = platform.submit(one_task(), namespace=namespace)
    seat.work()
    report(platform, platform.claim()[0], records)
    seat.work()
    assert platform.job(job_id)["status"] == "completed", platform.job(job_id)["error_message"]
    return job_id


def shown(settings: StorageSettings, namespace: str) -> dict[str, Any]:
    catalogue = StaticCatalogue(open_storage(settings, namespace))
    return {
        name: {one["id"]: one.get("whose") for _, one in catalogue.items(name) if one is not None}
        for name in catalogue.collection_ids()
    }


def test_two_namespaces_have_a_collection_of_one_id(platform: Platform, settings: StorageSettings) -> None:
    for namespace in NAMESPACES:
        publish(platform, namespace, collection("dem", title=namespace), item("i", "dem", whose=namespace))
    run_once(platform.conn, Relay(CatalogueKind.STATIC, settings))
    for namespace in NAMESPACES:
        assert shown(settings, namespace) == {"dem": {"i": namespace}}
    gold = Path(str(settings.root), "gold")
    assert sorted(path.relative_to(gold).as_posix() for path in gold.rglob("catalog.json")) == [
        "catalogue/catalog.json",
        "namespace-alpha/catalogue/catalog.json",
        "namespace-beta/catalogue/catalog.json",
    ]
    versions = rows(platform, "SELECT DISTINCT version, status::text FROM dag_catalogue_entries")
    assert versions == [(1, "published")], "nobody has changed what another one published"


def test_nobody_removes_items_of_others(platform: Platform, settings: StorageSettings) -> None:
    publish(platform, "beta", collection("dem"), item("i", "dem", whose="beta"))
    for namespace in ("alpha", "default"):
        for item_id in ("i", None):
            with pytest.raises(NotInCatalogue):
                remove_from_catalogue(platform.conn, namespace, "dem", item_id, actor="mallory")
    publish(platform, "alpha", collection("dem"), item("i", "dem", whose="alpha"))
    assert remove_from_catalogue(platform.conn, "alpha", "dem", None, actor="alice").removed == 1
    run_once(platform.conn, Relay(CatalogueKind.STATIC, settings))
    assert shown(settings, "beta") == {"dem": {"i": "beta"}}
    assert shown(settings, "alpha") == {"dem": {}}


@pytest.mark.parametrize("handler", ["stac.rebuild", "stac.repair_items"])
def test_upkeep_sees_its_own_namespace_only(
    platform: Platform, settings: StorageSettings, tmp_path: Path, handler: str
) -> None:
    publish(platform, "beta", collection("secret"), item("i", "secret", type="Feature"))
    run_once(platform.conn, Relay(CatalogueKind.STATIC, settings))
    before = {path: path.read_bytes() for path in (tmp_path / "storage").rglob("*.json")}
    params = {"collection_id": "secret"} if handler == "stac.repair_items" else {}
    for namespace in ("alpha", "default"):
        result = HandlerBench(tmp_path).run(handler, params, namespace=namespace)
        assert "secret" not in str(result.output)
        assert result.output.get("items", 0) == result.output.get("checked", 0) == 0
        assert result.records == ()
    assert {path: path.read_bytes() for path in (tmp_path / "storage").rglob("*.json")} == before
    assert HandlerBench(tmp_path).run("stac.rebuild", {"from_cogs": False}, namespace="beta").output["items"] == 1
