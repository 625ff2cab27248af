"""Orders and assets over HTTP: what is answered, what is refused, and how assets come back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.assets.identity import Platform as Client
from rmhdag.assets.identity import Platforms
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere, served
from tests.orchestrator.assets import REFS, raster_workflow
from tests.orchestrator.platform import Platform

ORDER: dict[str, Any] = {"platform_id": "ddh", "platform_refs": REFS, "workflow_id": "make_raster"}


@pytest.fixture
def http(api: ServedHere, platform: Platform) -> httpx.Client:
    platform.register(raster_workflow())
    return api.client(Scope.READ, Scope.SUBMIT, Scope.OPERATE, name="ada")


def order(http: httpx.Client, **more: Any) -> dict[str, Any]:
    answer = http.post("/api/v1/submit", json=ORDER | more)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def get(http: httpx.Client, path: str, **query: Any) -> Any:
    answer = http.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_order_from_its_submission_to_its_result(http: httpx.Client, platform: Platform) -> None:
    made = order(http, request_id="5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e", input_params={"n": 4})
    assert (made["status"], made["revision"], made["joined"]) == ("accepted", 1, False)
    path = f"requests/{made['request_id']}"
    pending = get(http, path)
    assert (pending["status"], pending["progress"], pending["result"]) == ("pending", {"percent": 0.0}, None)
    seat = platform.seat()
    seat.work()
    assert get(http, path)["status"] == "running"
    platform.finish(seat)
    done = get(http, path)
    assert (done["status"], done["progress"], done["result"]) == ("completed", {"percent": 100.0}, {"n": 4})
    assert (done["asset_id"], done["revision"], done["job_id"]) == (made["asset_id"], 1, made["job_id"])
    asset = get(http, f"assets/{made['asset_id']}")
    assert (asset["processing_status"], asset["current"]["outputs"]) == ("completed", {"n": 4})
    assert asset["platform_refs"] == REFS
    assert get(http, f"jobs/{made['job_id']}")["asset_id"] == made["asset_id"]


def test_a_repeat_is_told_as_one_and_another_order_refused(http: httpx.Client) -> None:
    made = order(http, request_id="r-1")
    again = http.post("/api/v1/submit", json=ORDER | {"request_id": "r-1"})
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.json() == made
    other = http.post("/api/v1/submit", json=ORDER | {"request_id": "r-1", "priority": 3})
    assert problem(other, 422)["code"] == "request_reused"


def test_a_cancelled_order_shows_as_failed(http: httpx.Client, platform: Platform) -> None:
    made = order(http)
    seat = platform.seat()
    seat.work()
    platform.conn.execute(
        "INSERT INTO dag_inbox (owner_id, job_id, kind, payload) VALUES (%s, %s, 'command',"
        ' \'{"kind": "cancel", "issued_by": "ada", "body": {}}\')',
        [seat.me, made["job_id"]],
    )
    seat.work()
    found = get(http, f"requests/{made['request_id']}")
    assert (found["status"], found["error"]) == ("failed", "cancelled")


def test_a_request_outlives_its_job(http: httpx.Client, platform: Platform) -> None:
    made = order(http, input_params={"n": 2})
    platform.finish(platform.seat())
    platform.conn.execute("DELETE FROM dag_jobs")
    found = get(http, f"requests/{made['request_id']}")
    assert (found["status"], found["result"], found["progress"]) == ("completed", {"n": 2}, {"percent": 100.0})


WRONG: list[tuple[dict[str, Any], int, str, str]] = [
    ({"platform_refs": {"dataset_id": 38272, "resource_id": "r"}}, 422, "invalid_request", "/platform_refs/dataset_id"),
    ({"platform_refs": {"dataset_id": "x"}}, 422, "invalid_references", "/platform_refs"),
    ({"platform_refs": None}, 422, "platform_missing", "/platform_id"),
    ({"platform_id": "nobody"}, 422, "invalid_references", "/platform_id"),
    ({"workflow_id": "make_rester"}, 404, "unknown_workflow", "/workflow_id"),
    ({"input_params": {"n": "x"}}, 422, "invalid_parameters", "/input_params/n"),
    ({"callback_url": "http://127.0.0.1/"}, 422, "callback_url_refused", "/callback_url"),
    ({"request_id": "a/b"}, 422, "invalid_request", "/request_id"),
    ({"submitted_by": "bob"}, 403, "scope_missing", "/submitted_by"),
    ({"supersede": 1}, 422, "invalid_request", "/supersede"),
    ({"asset_id": "x"}, 422, "invalid_request", "/asset_id"),
]


def test_what_is_wrong_is_told_with_its_place(http: httpx.Client) -> None:
    for more, status, code, pointer in WRONG:
        found = problem(http.post("/api/v1/submit", json=ORDER | more), status)
        assert (found["code"], found["errors"][0]["pointer"]) == (code, pointer)
        if pointer == "/platform_refs/dataset_id":
            assert '"0038272" is not 38272' in found["detail"]


def test_what_processes_an_asset_is_named_to_who_wants_otherwise(http: httpx.Client) -> None:
    order(http, request_id="r-1")
    assert order(http, request_id="r-2")["joined"]
    found = problem(http.post("/api/v1/submit", json=ORDER | {"input_params": {"n": 9}}), 409)
    assert found["code"] == "asset_processing"
    assert "request r-1" in found["detail"]
    assert order(http, input_params={"n": 9}, supersede=True)["revision"] == 2


def test_rollback_makes_a_revision_of_the_earlier_content(http: httpx.Client, platform: Platform) -> None:
    seat = platform.seat()
    for number in (1, 2):
        made = order(http, input_params={"n": number})
        platform.conn.execute(
            "INSERT INTO dag_blob_assets (blob_id, zone, container, path, size_bytes, sha256, role, asset_id, revision,"
            " job_id) VALUES (%s, 'silver', 'cogs', %s, 5, %s, 'data', %s, %s, %s)",
            [f"b{number}", f"{number}.tif", str(number) * 64, made["asset_id"], number, made["job_id"]],
        )
        platform.finish(seat)
    path = f"assets/{made['asset_id']}"
    first = get(http, f"{path}/revisions/1")
    answer = http.post(f"/api/v1/{path}/rollback", json={"revision": 1})
    back = problem(answer, 201)
    assert (back["revision"], back["source"], back["job_id"]) == (3, "rollback of 1", None)
    assert (back["content_hash"], back["outputs"]) == (first["content_hash"], {"n": 1})
    asset = get(http, path)
    assert (asset["current_revision"], asset["content_hash"]) == (3, first["content_hash"])
    files = get(http, f"{path}/revisions/3/blobs")["blobs"]
    assert [(one["path"], one["sha256"], one["job_id"]) for one in files] == [("1.tif", "1" * 64, None)]
    assert get(http, f"{path}/revisions/3/lineage")["sources"][0]["source_revision"] == 1
    assert get(http, f"{path}/revisions/1/lineage")["descendants"][0]["revision"] == 3
    assert [one["revision"] for one in get(http, f"{path}/revisions", limit=2)["revisions"]] == [3, 2]
    for revision, code in ((3, "revision_is_current"), (1, "revision_is_current"), (9, "unknown_revision")):
        refused = http.post(f"/api/v1/{path}/rollback", json={"revision": revision})
        assert problem(refused, 409)["code"] == code


def test_a_deleted_asset_is_not_listed_and_comes_back_with_its_next_revision(
    http: httpx.Client, platform: Platform
) -> None:
    made = order(http)
    path = f"assets/{made['asset_id']}"
    assert problem(http.delete(f"/api/v1/{path}"), 409)["code"] == "asset_processing"
    platform.finish(platform.seat())
    for _ in range(2):
        gone = http.delete(f"/api/v1/{path}")
        assert (gone.status_code, gone.json()["deleted_by"]) == (200, "ada")
    assert get(http, "assets")["assets"] == []
    assert len(get(http, "assets", deleted_too=True)["assets"]) == 1
    refused = problem(http.post(f"/api/v1/{path}/rollback", json={"revision": 1}), 409)
    assert refused["code"] == "asset_deleted"
    rerun = http.post(f"/api/v1/jobs/{made['job_id']}/rerun", json={"everything": True})
    assert problem(rerun, 409)["code"] == "asset_deleted"
    assert order(http)["revision"] == 2
    assert get(http, path)["deleted_at"] is None


def test_assets_are_listed_page_by_page_and_by_what_they_are(http: httpx.Client, platform: Platform) -> None:
    platform.register(raster_workflow("make_vector", "vector"))
    made = [order(http, platform_refs={**REFS, "resource_id": str(number)})["asset_id"] for number in range(5)]
    other = order(
        http, workflow_id="make_vector", platform_id="arcgis", platform_refs={"item_id": "é", "layer_idx": "0"}
    )["asset_id"]
    found: list[str] = []
    cursor = None
    while True:
        page = get(http, "assets", limit=2, **({} if cursor is None else {"cursor": cursor}))
        found += [one["asset_id"] for one in page["assets"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [other, *reversed(made)]

    def ids(**query: Any) -> list[str]:
        return [one["asset_id"] for one in get(http, "assets", **query)["assets"]]

    assert ids(platform_id="arcgis") == ids(kind="vector") == ids(ref="item_id=é") == [other]
    assert ids(ref=["resource_id=3", "dataset_id=0038272"]) == [made[3]]
    assert len(ids(processing_status="pending")) == 6
    assert ids(processing_status="failed") == []
    assert problem(http.get("/api/v1/assets", params={"cursor": "WzFd"}), 400)["code"] == "invalid_cursor"


def test_a_platform_that_is_set_up_here(migrated_database: str, platform: Platform) -> None:
    platform.register(raster_workflow())
    with served(migrated_database, platforms=Platforms((Client("geonode", ("dataset",)),))) as api:
        http = api.client(Scope.READ, Scope.SUBMIT)
        assert order(http, platform_id="geonode", platform_refs={"dataset": "d"})["revision"] == 1


def test_a_request_of_another_namespace_is_another_one(api: ServedHere, http: httpx.Client) -> None:
    order(http, request_id="r-1")
    south = api.client(Scope.READ, Scope.SUBMIT, namespace="south")
    assert problem(south.get("/api/v1/requests/r-1"), 404)["code"] == "not_found"
    assert get(south, "assets")["assets"] == []
