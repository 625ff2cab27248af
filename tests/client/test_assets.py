"""Orders and assets through both sides of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rmhdag import AsyncClient, Client
from rmhdag.client import Conflict, InvalidRequest, NotFound
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere, served
from tests.orchestrator.assets import REFS, raster_workflow
from tests.orchestrator.platform import Platform


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    made.register(raster_workflow())
    yield made
    made.close()


@pytest.fixture
def api(platform: Platform) -> Iterator[ServedHere]:
    with served(platform.dsn) as running:
        yield running


def test_an_order_and_what_becomes_of_it(api: ServedHere, platform: Platform) -> None:
    seat = platform.seat()
    with Client(api.url, api.key(Scope.READ, Scope.SUBMIT, Scope.OPERATE)) as client:
        for number in (1, 2):
            made = client.submit_request("make_raster", {"n": number}, platform_id="ddh", platform_refs=REFS)
            with pytest.raises(Conflict, match="with other parameters"):
                client.submit_request("make_raster", {"n": 9}, platform_id="ddh", platform_refs=REFS)
            platform.finish(seat)
        done = client.request(made.request_id)
        assert (done.status, done.result, done.revision) == ("completed", {"n": 2}, 2)
        assert made.asset_id is not None
        assert [one.asset_id for one in client.assets(refs=REFS, kind="raster")] == [made.asset_id]
        back = client.rollback(made.asset_id, 1)
        assert (back.revision, client.revision(made.asset_id, 3).outputs) == (3, {"n": 1})
        assert [one.revision for one in client.revisions(made.asset_id)] == [3, 2, 1]
        assert list(client.blobs(made.asset_id, 3)) == []
        assert client.lineage(made.asset_id, 3).sources[0].source_revision == 1
        assert client.delete_asset(made.asset_id).deleted_at is not None
        assert list(client.assets()) == []
        assert client.asset(made.asset_id).current_revision == 3
        with pytest.raises(NotFound):
            client.asset("0" * 32)
        with pytest.raises(InvalidRequest, match="is not 38272"):
            client.submit_request("make_raster", platform_id="ddh", platform_refs={"dataset_id": 38272})  # type: ignore[dict-item]


def test_the_other_side(api: ServedHere) -> None:
    async def order() -> str:
        async with AsyncClient(api.url, api.key(Scope.READ, Scope.SUBMIT)) as client:
            made = await client.submit_request("make_raster", platform_id="ddh", platform_refs=REFS, request_id="r-1")
            again = await client.submit_request("make_raster", platform_id="ddh", platform_refs=REFS, request_id="r-1")
            assert again == made
            assert [one.asset_id async for one in client.assets()] == [made.asset_id]
            return (await client.request("r-1")).status

    assert asyncio.run(order()) == "pending"


def test_platforms_and_dry_runs(api: ServedHere, platform: Platform) -> None:
    with Client(api.url, api.key(Scope.ADMIN, Scope.PLATFORM, name="ada")) as client:
        assert [line.platform_id for line in client.platforms()] == ["arcgis", "ddh"]
        view = client.set_platform("geonode", ["dataset"], optional_refs=["layer"], review="required")
        assert (client.platform("geonode"), view.review) == (view, "required")
        preview = client.preview_request("make_raster", platform_id="geonode", platform_refs={"dataset": "d"})
        assert (preview.outcome, preview.revision, preview.waits_for_review) == ("create", 1, True)
        assert not client.deactivate_platform("geonode").active
        refused = client.preview_request("make_raster", platform_id="geonode", platform_refs={"dataset": "d"})
        assert (refused.valid, refused.problems[0].refusal) == (False, "invalid_references")
        assert client.preview("make_raster", {"n": 2}).input_params == {"n": 2}
        assert client.preview("make_raster", {"n": "x"}).problems[0].pointer == "/input_params/n"
        with pytest.raises(NotFound):
            client.platform("nobodys")
    assert platform.count("dag_jobs") == 0

    async def ask() -> tuple[int, bool]:
        async with AsyncClient(api.url, api.key(Scope.READ, Scope.SUBMIT)) as client:
            return len(await client.platforms()), (await client.preview("make_raster")).valid

    assert asyncio.run(ask()) == (3, True)
