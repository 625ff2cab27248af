"""Unpublishing, external services and promoted datasets through both sides of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rmhdag import AsyncClient, Client
from rmhdag.client import Conflict, InvalidRequest, NotFound
from rmhdag.models.scopes import Scope
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from tests.api.serving import ServedHere, served
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_published_revisions import make
from tests.orchestrator.test_publishing import blob, collection, item

HOOK = "http://127.0.0.1:9999/hook"


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    made.register(raster_workflow())
    yield made
    made.close()


@pytest.fixture
def api(platform: Platform) -> Iterator[ServedHere]:
    rules = Rules(frozenset({"127.0.0.1:9999"}))
    with served(platform.dsn, callbacks=CallbackSettings(rules=rules, allow_plain=True)) as running:
        yield running


@pytest.fixture
def asset_id(platform: Platform) -> str:
    found: str = make(platform, platform.seat(), (blob(), collection(), item("i"))).request.asset_id
    return found


def test_the_blocking_side(api: ServedHere, asset_id: str) -> None:
    with Client(api.url, api.key(Scope.ADMIN)) as client:
        assert client.unpublish(asset_id).status == "dry_run"
        with pytest.raises(NotFound, match="nothing to unpublish"):
            client.unpublish(asset_id, 9)
        made = client.put_service("portal", "webhook", url=HOOK)
        assert made.new_secret is not None
        assert [one.name for one in client.services()] == ["portal"]
        assert client.service("portal").url == HOOK
        assert list(client.service_calls("portal", status="dead")) == []
        with pytest.raises(NotFound):
            client.retry_service_call("portal", "0" * 32)
        assert client.delete_service("portal").calls_not_delivered == 0
        client.promote("map", "c", "i", title="A map", system_role="admin0")
        client.promote("all", "c", classification="public")
        assert [one.promoted_id for one in client.promoted()] == ["all", "map"]
        assert [one.promoted_id for one in client.promoted(system_role="admin0")] == ["map"]
        assert client.promoted_dataset("map").title == "A map"
        assert [one.promoted_id for one in client.order_gallery(["map", "all"])] == ["map", "all"]
        assert [one.promoted_id for one in client.gallery(outside=True)] == ["all"]
        with pytest.raises(Conflict, match="system role"):
            client.demote("map")
        client.demote("map", confirm_system=True)
        with pytest.raises(InvalidRequest):
            client.promote("map", "c", classification="secret")
        assert client.unpublish(asset_id, 1, dry_run=False, reason="old").status == "pending"
        [line] = client.unpublishings(asset_id)
        assert (line.revision, line.reason) == (1, "old")
        assert client.asset(asset_id).unpublishings == [line]


def test_the_awaited_side(api: ServedHere, asset_id: str) -> None:
    async def use() -> None:
        async with AsyncClient(api.url, api.key(Scope.ADMIN)) as client:
            await client.put_service("portal", "webhook", url=HOOK, enabled=False)
            assert [one.enabled for one in await client.services()] == [False]
            await client.promote("map", "c")
            assert [one.promoted_id async for one in client.promoted()] == ["map"]
            done = await client.unpublish(asset_id, dry_run=False)
            assert done.status == "pending"
            assert [one.status async for one in client.unpublishings(asset_id)] == ["pending"]

    asyncio.run(use())
