"""Reviewers and operators at the gateway: decide, take back, unpublish."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.gateway.schemas import SCHEMAS
from rmhdag.models.assets import ApprovalState
from rmhdag.models.scopes import Scope
from tests.gateway.orders import REFS, order
from tests.gateway.serving import Served
from tests.lifecycle.reviewing import content, gated_workflow, reviewed_workflow
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
    assert status(partner, request_id)["progress"] == {"percent": 100.0, "message": "waits for a reviewer"}
    assert partner.get(f"/ogc/jobs/{request_id}").json()["progress"] == 100
    (review,) = waiting(reviewer)
    assert (review["platform_refs"], review["version"], review["submitted_by"]) == (REFS, "1", "acme")
    decision = {"request_id": request_id, "content_hash": review["content_hash"], "clearance": "OUO"}
    assert partner.post("/platform/approve", json=decision).status_code == 403
    moved = reviewer.post("/platform/approve", json={**decision, "content_hash": "0" * 64})
    assert (moved.status_code, moved.json()["code"]) == (409, "content_moved")
    decided = reviewer.post("/platform/approve", json=decision)
    assert decided.status_code == 200, decided.text
    assert (decided.json()["version"]["clearance"], decided.json()["version"]["is_served"]) == ("restricted", True)
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


def test_restricted_content_is_made_public(partner: httpx.Client, reviewer: httpx.Client, platform: Platform) -> None:
    request_id = make(partner, platform)
    (review,) = waiting(reviewer)
    body = {"request_id": request_id, "content_hash": review["content_hash"]}
    early = reviewer.post("/platform/clear", json=body)
    assert (early.status_code, early.json()["code"]) == (409, "illegal_review_step")
    reviewer.post("/platform/approve", json={**body, "clearance": "restricted"}).raise_for_status()
    assert partner.post("/platform/clear", json=body).status_code == 403
    cleared = reviewer.post("/platform/clear", json=body)
    assert cleared.status_code == 200, cleared.text
    assert (cleared.json()["version"]["clearance"], cleared.json()["version"]["is_served"]) == ("public", True)


def test_only_what_can_be_decided_is_listed(partner: httpx.Client, reviewer: httpx.Client, platform: Platform) -> None:
    """Not what is still made, and not what has failed: nobody could ever decide about it."""
    refs = {**REFS, "version_id": "1"}
    order(partner, platform_refs=refs)
    seat = platform.seat()
    seat.work()
    assert waiting(reviewer) == []
    platform.fail(*platform.claim())
    seat.work()
    assert waiting(reviewer) == []
    make(partner, platform, 2)
    make(partner, platform, 3)
    assert [line["version"] for line in waiting(reviewer)] == ["3"]
    versions = partner.get("/platform/assets/ddh", params=REFS).json()["versions"]
    assert [line["review"] for line in versions] == ["pending_review", "superseded", "superseded"]
    known = SCHEMAS["Version"]["properties"]["review"]["enum"]
    assert {state.value for state in ApprovalState} == set(known)
    superseded = reviewer.get("/platform/approvals", params={"status": "superseded"}).json()["reviews"]
    assert {line["version"] for line in superseded} == {"1", "2"}


def at_the_gate(partner: httpx.Client, platform: Platform) -> str:
    """An order whose job waits at its approval node."""
    platform.register(gated_workflow(message="Fit to print?", approvers=("rita",)))
    refs = {**REFS, "version_id": "1"}
    request_id: str = order(partner, workflow_id="gated", platform_refs=refs).json()["request_id"]
    seat = platform.seat()
    seat.work()
    (claimed,) = platform.claim()
    report(platform, claimed, content(1))
    seat.work()
    return request_id


def test_a_job_that_waits_at_its_gate_is_approved(
    gateway: Served, partner: httpx.Client, reviewer: httpx.Client, platform: Platform
) -> None:
    request_id = at_the_gate(partner, platform)
    assert status(partner, request_id)["status"] == "awaiting_approval"
    (review,) = waiting(reviewer)
    assert review["content_hash"] is None
    (gate,) = review["gates"]
    assert (gate["gate"], gate["message"], gate["approvers"]) == ("ask", "Fit to print?", ["rita"])

    body = {"request_id": request_id, "clearance": "public"}
    without = reviewer.post("/platform/approve", json=body)
    assert (without.status_code, without.json()["errors"][0]["pointer"]) == (422, "/gate")
    both = reviewer.post("/platform/approve", json={**body, "gate": "ask", "content_hash": "0" * 64})
    assert (both.status_code, both.json()["errors"][0]["pointer"]) == (422, "/content_hash")
    unnamed = {"platform_id": "ddh", "platform_refs": REFS, "clearance": "public", "gate": "ask"}
    assert reviewer.post("/platform/approve", json=unnamed).json()["errors"][0]["pointer"] == "/revision"
    other = reviewer.post("/platform/approve", json={**body, "gate": "other"})
    assert (other.status_code, other.json()["code"]) == (409, "gate_not_waiting")
    assert partner.post("/platform/approve", json={**body, "gate": "ask"}).status_code == 403
    assert reviewer.post("/platform/revoke", json={**body, "reason": "no", "gate": "ask"}).status_code == 422

    decided = reviewer.post("/platform/approve", json={**body, "gate": "ask"})
    assert (decided.status_code, decided.json()["decision"]) == (202, "approve"), decided.text
    platform.seats[0].work()
    (claimed,) = platform.claim()
    report(platform, claimed, ())
    platform.seats[0].work()
    done = status(partner, request_id)
    assert (done["status"], done["versions"][0]["is_served"]) == ("completed", True)
    again = reviewer.post("/platform/approve", json={**body, "gate": "ask"})
    assert (again.status_code, again.json()["code"]) == (409, "gate_not_waiting")


def test_a_job_that_waits_at_its_gate_is_rejected_by_those_who_may(
    gateway: Served, partner: httpx.Client, reviewer: httpx.Client, platform: Platform
) -> None:
    request_id = at_the_gate(partner, platform)
    body = {"platform_id": "ddh", "platform_refs": REFS, "revision": 1, "gate": "ask"}
    assert reviewer.post("/platform/reject", json=body).json()["errors"][0]["pointer"] == "/reason"
    stranger = gateway.client(Scope.REVIEWER, name="bob")
    stranger.post("/platform/reject", json={**body, "reason": "ugly"})
    platform.seats[0].work()
    assert status(partner, request_id)["status"] == "awaiting_approval"
    reviewer.post("/platform/reject", json={**body, "reason": "clouds"}).raise_for_status()
    platform.seats[0].work()
    failed = status(partner, request_id)
    assert (failed["status"], failed["error"]["code"], failed["error"]["message"]) == ("failed", "REJECTED", "clouds")
    assert waiting(reviewer) == []


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
