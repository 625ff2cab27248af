"""Reviewers and operators at the gateway: decide, take back, unpublish."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from tests.gateway.orders import REFS, order
from tests.gateway.serving import Served
from tests.lifecycle.reviewing import content, reviewed_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import report


@pytest.fixture
def partner(gateway: Served, platform: Platform) -> httpx.Client:
    platform.register(reviewed_workflow().model_copy(update={"version": 2}))
    return gateway.client()


@pytest.fixture
def reviewer(gateway: Served) -> httpx.Client:
    return gateway.client(Scope.REVIEWER, name="rita")


def make(partner: httpx.Client, platform: Platform, number: int = 1) -> str:
    """An order whose content waits for a reviewer."""
    refs = {**REFS, "version_id": str(number)}
    request_id: str = order(partner, input_params={"n": number}, platform_refs=refs).json()["request_id"]
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    report(platform, claimed, content(number))
    seat.work()
    return request_id


def status(client: httpx.Client, request_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = client.get(f"/platform/status/{request_id}").json()
    return shown


def waiting(reviewer: httpx.Client) -> list[dict[str, Any]]:
    reviews: list[dict[str, Any]] = reviewer.get("/platform/approvals").json()["reviews"]
    return reviews


def test_an_approval_lets_the_partner_see_the_data(
    partner: httpx.Client, reviewer: httpx.Client, platform: Platform
) -> None:
    request_id = make(partner, platform)
    assert (status(partner, request_id)["status"], status(partner, request_id)["services"]) == (
        "awaiting_approval",
        None,
    )
    # Nothing is left to make, and the percentage never goes back.
    assert status(partner, request_id)["progress"] == {"percent": 100.0}
    assert partner.get(f"/ogc/jobs/{request_id}").json()["progress"] == 100
    (review,) = waiting(reviewer)
    assert (review["platform_refs"], review["version"], review["submitted_by"]) == (REFS, "1", "acme")
    decision = {"request_id": request_id, "content_hash": review["content_hash"], "clearance": "OUO"}
    assert partner.post("/platform/approve", json=decision).status_code == 403
    moved = reviewer.post("/platform/approve", json={**decision, "content_hash": "0" * 64})
    assert (moved.status_code, moved.json()["code"]) == (409, "content_moved")
    decided = reviewer.post("/platform/approve", json=decision)
    assert decided.status_code == 200, decided.text
    assert decided.json()["version"]["clearance"] == "restricted"
    done = status(partner, request_id)
    assert (done["status"], done["versions"][0]["is_served"]) == ("completed", True)
    assert done["services"]["stac_item"].startswith("https://stac.example.org/")
    again = reviewer.post("/platform/approve", json=decision)
    assert (again.status_code, again.json()["code"]) == (409, "illegal_review_step")
    assert waiting(reviewer) == []


def test_a_rejection_tells_the_partner_why(partner: httpx.Client, reviewer: httpx.Client, platform: Platform) -> None:
    request_id = make(partner, platform)
    (review,) = waiting(reviewer)
    address = {"platform_id": "ddh", "platform_refs": {**REFS, "version_id": "1"}}
    decision = {**address, "content_hash": review["content_hash"], "reason": "clouds"}
    assert reviewer.post("/platform/reject", json={**decision, "reason": ""}).status_code == 422
    assert reviewer.post("/platform/reject", json=decision).status_code == 200
    failed = status(partner, request_id)
    assert (failed["status"], failed["error"]["code"], failed["error"]["message"]) == ("failed", "REJECTED", "clouds")


def test_an_older_version_is_served_until_the_new_one_is_approved(
    partner: httpx.Client, reviewer: httpx.Client, platform: Platform
) -> None:
    first = make(partner, platform, 1)
    (review,) = waiting(reviewer)
    body = {"request_id": first, "content_hash": review["content_hash"], "clearance": "public"}
    reviewer.post("/platform/approve", json=body).raise_for_status()
    second = make(partner, platform, 2)
    shown = {line["version"]: line["is_served"] for line in status(partner, second)["versions"]}
    assert shown == {"1": True, "2": False}
    revoked = {"request_id": first, "content_hash": review["content_hash"], "reason": "licence"}
    reviewer.post("/platform/revoke", json=revoked).raise_for_status()
    assert (status(partner, first)["error"] or {})["code"] == "REVOKED"


def test_only_the_named_version_is_unpublished(
    gateway: Served, partner: httpx.Client, reviewer: httpx.Client, platform: Platform
) -> None:
    operator = gateway.client(Scope.OPS, name="olga")
    first, second = make(partner, platform, 1), make(partner, platform, 2)
    plan = operator.post("/platform/unpublish", json={"request_id": first})
    assert plan.status_code == 200, plan.text
    assert plan.json()["dry_run"] is True
    for address in ({"request_id": first}, {"platform_id": "ddh", "platform_refs": {**REFS, "version_id": "1"}}):
        gone = operator.post("/platform/unpublish", json={**address, "dry_run": False, "reason": "wrong"})
        assert gone.status_code == 200, gone.text
    rows = platform.conn.execute(
        "SELECT revision, unpublished_at IS NOT NULL FROM dag_asset_revisions ORDER BY revision"
    ).fetchall()
    assert rows == [(1, True), (2, False)]
    assert status(partner, second)["status"] == "awaiting_approval"
    assert operator.post("/platform/unpublish", json={"request_id": "unknown"}).status_code == 404


def test_assets_are_found_with_and_without_their_version(partner: httpx.Client, platform: Platform) -> None:
    make(partner, platform)
    for refs in (REFS, {**REFS, "version_id": "1"}):
        found = partner.get("/platform/assets/ddh", params=refs)
        assert found.status_code == 200, found.text
        assert found.json()["platform_refs"] == REFS
    assert partner.get("/platform/assets/ddh", params={**REFS, "resource_id": "other"}).status_code == 404
