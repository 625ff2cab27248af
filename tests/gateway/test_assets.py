"""Assets, reviews, platforms, service addresses, and what operators see."""

from __future__ import annotations

import httpx
import orjson
import pytest
from pydantic import ValidationError

from rmhdag.gateway.configuration import GatewayConfiguration
from rmhdag.gateway.service_urls import services_of
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere
from tests.gateway.orders import REFS, order
from tests.gateway.serving import Served, served_gateway
from tests.orchestrator.platform import Platform

HASH = "a" * 64


@pytest.fixture
def done(gateway: Served, platform: Platform) -> str:
    """An order that is completed, with an item and a file."""
    request_id: str = order(gateway.client()).json()["request_id"]
    platform.finish(platform.seat())
    row = platform.conn.execute("SELECT asset_id, job_id FROM dag_api_requests").fetchone()
    assert row is not None
    platform.conn.execute(
        "INSERT INTO dag_revision_items (asset_id, revision, collection_id, item_id, size_bytes, body)"
        " VALUES (%s, 1, 'floods', 'depth 1', 2, '{}')",
        [row[0]],
    )
    platform.conn.execute(
        "INSERT INTO dag_blob_assets (blob_id, zone, container, path, size_bytes, sha256, role, asset_id, revision)"
        " VALUES ('b', 'gold', 'cogs', 'floods/depth.tif', 1, %s, 'data', %s, 1)",
        [HASH, row[0]],
    )
    platform.conn.execute("UPDATE dag_asset_revisions SET content_hash = %s", [HASH])
    return request_id


def review(platform: Platform, state: str, reason: str | None = None) -> None:
    platform.conn.execute(
        "UPDATE dag_asset_revisions SET review_state = %s, decision_reason = %s, decided_at = now()", [state, reason]
    )


def shown(client: httpx.Client, request_id: str) -> dict[str, object]:
    answer = client.get(f"/platform/status/{request_id}")
    assert answer.status_code == 200, answer.text
    body: dict[str, object] = answer.json()
    return body


def test_services_are_told_when_content_may_be_seen(gateway: Served, platform: Platform, done: str) -> None:
    client = gateway.client()
    expected = {
        "service_url": None,
        "preview": None,
        "viewer": "https://tiles.example.org/map?url=%2Fvsiaz%2Fcogs%2Ffloods%2Fdepth.tif",
        "tiles": None,
        "stac_collection": None,
        "stac_item": "https://stac.example.org/collections/floods/items/depth%201",
    }
    assert shown(client, done)["services"] == expected
    links = client.get(f"/platform/results/{done}").json()["links"]
    assert {"rel": "item", "href": expected["stac_item"], "type": "application/json"} in links
    found = client.get("/platform/catalog/lookup", params=REFS).json()
    assert (found["found"], found["services"]) == (True, expected)
    for state, status in {
        "pending_review": "awaiting_approval",
        "rejected": "failed",
        "approved": "completed",
        "revoked": "failed",
    }.items():
        review(platform, state, "blurred")
        body = shown(client, done)
        assert body["status"] == status
        assert (body["services"] == expected) == (state == "approved")
        assert (body["result"] is not None) == (state == "approved")
        assert client.get("/platform/requests", params={"status": status}).json()["requests"][0]["status"] == status
        if status == "failed":
            assert body["error"] == {
                "code": state.upper(),
                "category": "data_quality",
                "message": "blurred",
                "remediation": "Correct the data and order again.",
                "user_fixable": True,
            }


def test_nothing_is_promised_of_unpublished_content(gateway: Served, platform: Platform, done: str) -> None:
    """Content that needs no review is unpublished without a decision: its order stays completed."""
    operator, client = gateway.client(Scope.OPS, name="operator"), gateway.client()
    found = client.get("/platform/catalog/lookup", params=REFS).json()
    assert found["found"] is True
    answer = operator.post("/platform/unpublish", json={"request_id": done, "dry_run": False})
    assert answer.status_code == 200, answer.text
    assert (shown(client, done)["status"], shown(client, done)["services"]) == ("completed", None)
    gone = client.get("/platform/catalog/lookup", params=REFS).json()
    assert (gone["found"], gone["reason"]) == (False, "asset_not_found")


def test_without_templates_nothing_is_promised(
    migrated_database: str, api: ServedHere, done: str, platform: Platform
) -> None:
    with served_gateway(migrated_database, api.url) as plain:
        assert shown(plain.client(), done)["services"] is None


def test_an_order_whose_job_is_gone_tells_how_it_ended(gateway: Served, platform: Platform, done: str) -> None:
    platform.conn.execute("DELETE FROM dag_jobs")
    body = shown(gateway.client(), done)
    assert (body["status"], body["result"]) == ("completed", {"n": 7})
    platform.conn.execute("DELETE FROM dag_asset_revisions")
    gone = shown(gateway.client(), done)
    assert gone["status"] == "failed"
    assert gone["error"]["code"] == "NO_LONGER_KEPT"  # type: ignore[index]


def test_assets_are_found_by_their_references(gateway: Served, done: str) -> None:
    client = gateway.client()
    (line,) = client.get("/platform/assets").json()["assets"]
    assert (line["platform_refs"], line["kind"], line["versions"][0]["number"]) == (REFS, "raster", 1)
    assert client.get("/platform/assets/ddh", params=REFS).json() == line
    assert client.get("/platform/assets/ddh").status_code == 422
    assert client.get("/platform/assets/ddh", params={"dataset_id": "9"}).status_code == 404
    assert client.get("/platform/assets", params={"platform_id": "arcgis"}).json()["assets"] == []


def test_operators_delete_and_roll_back(gateway: Served, platform: Platform, done: str) -> None:
    operator = gateway.client(Scope.OPS, name="operator")
    order(gateway.client(), input_params={"n": 8})
    platform.finish(platform.seat())
    rolled = operator.post("/platform/rollback", json={"platform_id": "ddh", "platform_refs": REFS, "revision": 1})
    assert (rolled.status_code, rolled.json()) == (201, {"rolled_back_to": 1, "number": 3})
    assert operator.delete("/platform/assets/ddh", params=REFS).json()["deleted"] is True
    assert operator.get("/platform/assets/ddh", params=REFS).status_code == 404
    assert shown(gateway.client(), done)["services"] is None
    actors = platform.conn.execute("SELECT DISTINCT actor FROM dag_audit WHERE action LIKE 'asset.%'").fetchall()
    assert actors == [("operator",)]


def test_reviewers_see_what_waits_and_name_what_they_saw(gateway: Served, platform: Platform, done: str) -> None:
    reviewer = gateway.client(Scope.REVIEWER, name="rita")
    review(platform, "pending_review")
    (line,) = reviewer.get("/platform/approvals").json()["reviews"]
    assert (line["platform_refs"], line["revision"], line["content_hash"]) == (REFS, 1, HASH)
    assert reviewer.get("/platform/approvals", params={"status": "approved"}).json()["reviews"] == []
    assert reviewer.get("/platform/approvals", params={"status": "x"}).status_code == 422
    answer = reviewer.post("/platform/approve", json={"request_id": done})
    assert answer.json()["errors"][0]["pointer"] == "/content_hash"
    for verb in ("approve", "reject", "revoke"):
        unknown = reviewer.post(f"/platform/{verb}", json={"request_id": "unknown", "content_hash": HASH})
        assert unknown.status_code == 404


def test_platforms_and_workflows_are_listed(gateway: Served, platform: Platform) -> None:
    platform.conn.execute(
        "INSERT INTO dag_platforms (platform_id, identity_refs, version_ref, created_by)"
        " VALUES ('geonode', '[\"layer\"]', 'release', 'test')"
    )
    client = gateway.client()
    assert client.get("/platform/registry/geonode").json() == {
        "platform_id": "geonode",
        "identity_refs": ["layer"],
        "optional_refs": [],
        "version_ref": "release",
        "review": "none",
    }
    assert client.get("/platform/registry/nobody").status_code == 404
    (line,) = client.get("/platform/workflows").json()["workflows"]
    assert (line["workflow_id"], line["produces"]) == ("make_raster", "raster")
    assert line["inputs"]["n"]["type"] == "integer"


def test_operators_see_jobs_of_their_namespace(gateway: Served, platform: Platform, done: str) -> None:
    operator = gateway.client(Scope.OPS, name="operator")
    other = gateway.client(Scope.OPS, name="operator", namespace="north")
    (job,) = operator.get("/status/jobs").json()["jobs"]
    path = f"/status/job/{job['job_id']}"
    assert operator.get(path).json()["status"] == "completed"
    assert operator.get(f"{path}/nodes").json()["nodes"][0]["node_id"] == "one"
    assert operator.get(f"{path}/events").json()["events"]
    assert operator.get("/status/jobs", params={"include_nodes": "true"}).json()["jobs"][0]["nodes"]
    assert operator.get("/status/jobs", params={"offset": 1}).json()["jobs"] == []
    assert operator.get("/status/jobs", params={"status": "failed"}).json()["jobs"] == []
    assert operator.get("/status/lookup", params={"correlation_id": done}).json()["jobs"][0]["job_id"] == job["job_id"]
    assert operator.get("/status/lookup").status_code == 422
    assert operator.get("/status/stats").status_code == 200
    assert operator.get("/admin/active-jobs").json() == {"jobs": []}
    assert "components" in operator.get("/admin/health").text
    configured = operator.get("/admin/config").text
    assert "rmhdag_" not in configured
    assert "127.0.0.1" not in configured
    assert other.get(path).status_code == 404
    assert other.get("/status/jobs").json()["jobs"] == []
    assert operator.get("/gateway/health").json() == {"status": "healthy", "ready_for_jobs": True}


def test_an_order_is_looked_up_by_its_key(gateway: Served, platform: Platform) -> None:
    request_id = order(gateway.client(), headers={"Idempotency-Key": "k-1"}).json()["request_id"]
    operator = gateway.client(Scope.OPS, name="operator")
    query = {"idempotency_key": "k-1", "submitted_by": "acme"}
    assert operator.get("/status/lookup", params=query).json()["request_id"] == request_id
    assert operator.get("/status/lookup", params={**query, "submitted_by": "bolt"}).status_code == 404


def test_the_proxy_passes_on_listed_paths_and_no_others(gateway: Served, done: str) -> None:
    admin = gateway.client(Scope.ADMIN, name="root")
    assert admin.get("/proxy/health").json() == {"targets": {"orchestrator": "alive"}}
    assert admin.get("/proxy/orchestrator/livez").status_code == 200
    assert admin.get("/proxy/orchestrator/api/v1/jobs?limit=1").json()["jobs"]
    assert admin.get("/proxy/orchestrator/api/v1/jobs?limit=0").status_code == 422
    for path in (
        "orchestrator/api/v1/keys",
        "orchestrator/api/v1/bootstrap/status",
        "orchestrator/api/v1/jobs/../keys",
        "orchestrator/api/v1/jobs/%2e%2e/keys",
        "orchestrator//evil.example.org/livez",
        "worker/livez",
        "elsewhere/livez",
    ):
        assert admin.get(f"/proxy/{path}").status_code == 404, path
    assert admin.post("/proxy/orchestrator/api/v1/jobs").status_code == 405
    assert gateway.client(Scope.OPS, name="operator").get("/proxy/orchestrator/livez").status_code == 403


@pytest.mark.parametrize(
    "templates",
    [
        {"raster": {"viewer": "/relative"}},
        {"raster": {"nothing": "https://x"}},
        {"cloud": {}},
        {"raster": {"viewer": "https://x/{secret}"}},
        {"raster": {"viewer": "https://x/{path.__class__}"}},
        {"raster": {"viewer": "https://x/{"}},
        [],
    ],
)
def test_wrong_templates_are_refused(templates: object) -> None:
    with pytest.raises(ValidationError):
        GatewayConfiguration.model_validate({"service_urls": orjson.dumps(templates).decode()})


def test_tile_addresses_keep_the_names_that_a_map_fills_in() -> None:
    services = services_of({"tiles": "https://t/{z}/{x}/{y}?c={collection_id}"}, {"collection_id": "a b"})
    assert services is not None
    assert services["tiles"] == "https://t/{z}/{x}/{y}?c=a%20b"
    assert services_of({"tiles": "https://t/{item_id}"}, {}) == dict.fromkeys(services)
    assert services_of({}, {}) is None
