"""Reviews over HTTP, with both clients and on the command line: who may, what is answered, what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rmhdag import AsyncClient, Client
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.client import Conflict, InvalidRequest
from rmhdag.models.assets import PlatformReview
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere, served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.lifecycle.reviewing import (
    content,
    gated_workflow,
    hash_of,
    key_of,
    make_revision,
    reviewed_workflow,
    revision_row,
    set_platform,
)
from tests.orchestrator.assets import place_order
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import report


@pytest.fixture
def api(platform: Platform) -> Iterator[ServedHere]:
    platform.register(reviewed_workflow())
    with served(platform.dsn) as running:
        yield running


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    assert body["code"] == code, body
    return body


def test_a_review_over_http(api: ServedHere, platform: Platform) -> None:
    seat = platform.seat()
    ordered = make_revision(platform, seat)
    key, content_hash = key_of(ordered), hash_of(platform, key_of(ordered))
    reviewer = api.client(Scope.REVIEWER, name="rita")
    [waiting] = reviewer.get("/api/v1/reviews").json()["reviews"]
    assert (waiting["asset_id"], waiting["revision"], waiting["content_hash"]) == (key.asset_id, 1, content_hash)
    assert waiting["platform_refs"] == {"dataset_id": "0038272", "resource_id": "r1"}
    [listed] = reviewer.get("/api/v1/approvals").json()["approvals"]
    assert (listed["kind"], listed["decide_path"]) == ("revision", waiting["approve_path"])
    assert listed["command"].startswith(f"rmhdag asset approve {key.asset_id} --revision 1 --content ")

    path = waiting["approve_path"]
    body = {"content_hash": content_hash, "clearance": "Official Use Only"}
    operator = api.client(Scope.READ, Scope.SUBMIT, Scope.OPERATE, name="otto")
    problem(operator.post(path, json=body), 403, "scope_missing")
    problem(reviewer.post(path, json={"content_hash": content_hash}), 422, "invalid_request")
    refused = problem(reviewer.post(path, json=body | {"clearance": "cleared"}), 422, "invalid_request")
    assert refused["detail"].startswith("'cleared' is not a clearance")
    problem(reviewer.post(path, json=body | {"content_hash": "f" * 64}), 409, "content_moved")
    answer = reviewer.post(path, json=body)
    assert answer.json() == {
        "asset_id": key.asset_id,
        "revision": 1,
        "review_state": "approved",
        "clearance": "restricted",
        "served_revision": 1,
        "notices": ["the content is not public, so no external service is notified"],
    }
    again = problem(reviewer.post(path, json=body), 409, "illegal_review_step")
    assert again["expected"] == "pending_review"
    assert again["remedy"]
    assert reviewer.get("/api/v1/reviews").json() == {"reviews": [], "next_cursor": None}

    base = path.removesuffix("approve")
    cleared = reviewer.post(f"{base}clear", json={"content_hash": content_hash})
    assert (cleared.status_code, cleared.json()["clearance"]) == (200, "public")
    problem(reviewer.post(f"{base}revoke", json={"content_hash": content_hash}), 422, "invalid_request")
    revoked = reviewer.post(f"{base}revoke", json={"content_hash": content_hash, "reason": "wrong licence"})
    assert (revoked.json()["review_state"], revoked.json()["served_revision"]) == ("revoked", None)
    problem(reviewer.post(path.replace(key.asset_id, "0" * 32), json=body), 404, "not_found")

    asset = operator.get(f"/api/v1/assets/{key.asset_id}").json()
    assert (asset["approval_state"], asset["current_revision"]) == ("revoked", None)
    revision = operator.get(f"/api/v1/assets/{key.asset_id}/revisions/1").json()
    assert (revision["decided_by"], revision["decision_reason"]) == ("rita", "wrong licence")
    for state, count in (("revoked", 1), ("approved", 0)):
        found = operator.get("/api/v1/assets", params={"approval_state": state}).json()["assets"]
        assert len(found) == count


def test_pages_of_reviews_and_approvals(api: ServedHere, platform: Platform) -> None:
    """Both kinds, longest first, none twice and none left out."""
    seat = platform.seat()
    platform.register(gated_workflow())
    for number in range(1, 6):
        refs = {"dataset_id": f"{number}", "resource_id": "r"}
        if number % 2:
            make_revision(platform, seat, number, platform_refs=refs)
            continue
        place_order(platform.conn, "gated", platform_refs=refs)
        seat.work()
        [claimed] = platform.claim()
        report(platform, claimed, content(number))
        seat.work()
    reader = api.client(Scope.READ)
    for path, name, count in (("approvals", "approvals", 5), ("reviews", "reviews", 3)):
        whole = reader.get(f"/api/v1/{path}").json()[name]
        assert len(whole) == count
        assert [line["waiting_since"] for line in whole] == sorted(line["waiting_since"] for line in whole)
        pages, cursor = [], None
        while True:
            page = reader.get(f"/api/v1/{path}", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            pages += page[name]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert pages == whole
    other = api.client(Scope.ADMIN, namespace="other")
    assert other.get("/api/v1/reviews").json() == {"reviews": [], "next_cursor": None}


def test_only_reviewers_decide_at_a_gate_of_content(api: ServedHere, platform: Platform) -> None:
    platform.register(gated_workflow())
    seat = platform.seat()
    ordered = place_order(platform.conn, "gated")
    seat.work()
    report(platform, platform.claim()[0], content(1))
    seat.work()
    [waiting] = api.client(Scope.READ).get("/api/v1/approvals").json()["approvals"]
    assert (waiting["asset_id"], waiting["revision"]) == (ordered.request.asset_id, 1)
    assert waiting["command"].endswith("approve --clearance …")
    operator, reviewer = api.client(Scope.OPERATE, name="otto"), api.client(Scope.REVIEWER, name="rita")
    approval = {"decision": "approve", "clearance": "public"}
    problem(operator.post(waiting["decide_path"], json=approval), 403, "scope_missing")
    problem(reviewer.post(waiting["decide_path"], json={"decision": "approve"}), 422, "invalid_decision")
    assert reviewer.post(waiting["decide_path"], json=approval).status_code in (200, 202)
    seat.work()
    row = revision_row(platform, key_of(ordered))
    assert (row["review_state"], row["clearance"], row["decided_by"]) == ("approved", "public", "rita")


def test_both_clients(api: ServedHere, platform: Platform) -> None:
    seat = platform.seat()
    first = key_of(make_revision(platform, seat, 1))
    secret = api.key(Scope.READ, Scope.REVIEWER, name="rita")
    with Client(api.url, secret) as client:
        [waiting] = client.reviews()
        assert [line.asset_id for line in client.approvals()] == [first.asset_id]
        bound = {"content_hash": waiting.content_hash}
        with pytest.raises(InvalidRequest, match="not a clearance"):
            client.approve(first.asset_id, 1, **bound, clearance="secret")
        assert client.approve(first.asset_id, 1, **bound, clearance="ouo").clearance == "restricted"
        with pytest.raises(Conflict, match="needs `pending_review`"):
            client.reject(first.asset_id, 1, **bound, reason="clouds")
        assert client.clear(first.asset_id, 1, **bound).clearance == "public"
        assert client.revoke(first.asset_id, 1, **bound, reason="wrong licence").served_revision is None
        assert [asset.asset_id for asset in client.assets(approval_state="revoked")] == [first.asset_id]
    second = key_of(make_revision(platform, seat, 2))

    async def reject() -> str:
        async with AsyncClient(api.url, secret) as client:
            found = [line async for line in client.reviews()]
            decided = await client.reject(second.asset_id, 2, content_hash=found[0].content_hash, reason="clouds")
            return decided.review_state

    assert asyncio.run(reject()) == "rejected"


@pytest.fixture(params=["near", "far"])
def cli(request: pytest.FixtureRequest, platform: Platform, api: ServedHere, call_cli: RunCli) -> RunCli:
    if request.param == "near":
        return lambda *words, **more: call_cli(*words, RMHDAG_DATABASE_URL=platform.dsn)
    key = api.key(Scope.READ, Scope.REVIEWER, name="rita")
    return lambda *words, **more: call_cli(*words, RMHDAG_URL=api.url, RMHDAG_KEY=key)


def read(cli: RunCli, name: str, *words: str) -> dict[str, Any]:
    done = cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    compare(answer, JSON_OBJECTS[name])
    return answer


def test_the_command_line(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    key = key_of(make_revision(platform, seat, 1))
    content_hash = hash_of(platform, key)
    assert [line["asset_id"] for line in read(cli, "approvals", "approvals")["approvals"]] == [key.asset_id]
    listed = cli("approvals").stdout
    assert "dataset_id=0038272" in listed
    assert f"rmhdag asset approve {key.asset_id} --revision 1 --content {content_hash[:16]}" in listed
    assert "pending_review" in cli("assets").stdout

    target = (key.asset_id, "--revision", "1")
    usage = cli("asset", "approve", *target, "--clearance", "secret")
    assert (usage.returncode, "not a clearance" in usage.stderr) == (ExitCode.USAGE, True)
    moved = cli("asset", "approve", *target, "--clearance", "public", "--content", "ffffffff")
    assert (moved.returncode, "is not ffffffff" in moved.stderr) == (ExitCode.CONFLICT, True)
    approval = ("asset", "approve", *target, "--clearance", "OUO", "--content", content_hash[:16])
    assert read(cli, "asset approve", *approval)["clearance"] == "restricted"
    twice = cli(*approval)
    assert (twice.returncode, "`revoke` takes this one back" in twice.stderr) == (ExitCode.CONFLICT, True)
    shown = cli("asset", key.asset_id).stdout
    assert "revision 1 is approved by" in shown
    assert "restricted" in shown
    assert read(cli, "asset clear", "asset", "clear", *target)["clearance"] == "public"
    revoked = cli("asset", "revoke", *target, "--reason", "wrong licence")
    assert revoked.returncode == 0, revoked.stderr
    assert "is revoked; nothing is served" in revoked.stderr
    assert "wrong licence" in cli("asset", key.asset_id).stdout
    assert len(read(cli, "assets", "assets", "--review", "revoked")["assets"]) == 1
    make_revision(platform, seat, 2)
    rejection = ("asset", "reject", key.asset_id, "--revision", "2", "--reason", "clouds")
    assert read(cli, "asset reject", *rejection)["review_state"] == "rejected"
    assert cli("asset", "reject", key.asset_id, "--revision", "7", "--reason", "x").returncode == ExitCode.NOT_FOUND


def test_the_only_revision_need_not_be_named(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    key = key_of(make_revision(platform, seat, 1))
    content_hash = hash_of(platform, key)
    early = cli("asset", "revoke", key.asset_id, "--reason", "wrong licence")
    assert (early.returncode, "no revision of asset" in early.stderr) == (ExitCode.CONFLICT, True)
    moved = cli("asset", "approve", key.asset_id, "--clearance", "public", "--content", "ffffffff")
    assert (moved.returncode, "revision 1 is not ffffffff" in moved.stderr) == (ExitCode.CONFLICT, True)
    approved = cli("asset", "approve", key.asset_id, "--clearance", "OUO")
    assert approved.returncode == 0, approved.stderr
    assert f"revision 1 is the only one to approve, with content {content_hash[:16]}\n" in approved.stderr
    assert read(cli, "asset clear", "asset", "clear", key.asset_id)["clearance"] == "public"
    make_revision(platform, seat, 2)
    assert read(cli, "asset reject", "asset", "reject", key.asset_id, "--reason", "clouds")["revision"] == 2
    third = key_of(make_revision(platform, seat, 3))
    assert cli("asset", "approve", key.asset_id, "--clearance", "public").returncode == 0
    several = cli("asset", "revoke", key.asset_id, "--reason", "wrong licence")
    assert several.returncode == ExitCode.USAGE
    listed = f"3 (content {hash_of(platform, third)[:16]}), 1 (content {content_hash[:16]})"
    assert f"2 revisions of asset {key.asset_id} are approved: {listed}" in several.stderr
    assert "--revision" in several.stderr
    assert revision_row(platform, third)["review_state"] == "approved"
    unknown = cli("asset", "reject", "0" * 32, "--reason", "clouds")
    assert unknown.returncode == ExitCode.NOT_FOUND


def test_the_command_to_decide_is_for_those_who_may(api: ServedHere, platform: Platform, call_cli: RunCli) -> None:
    platform.register(gated_workflow(approvers=("rita",)))
    seat = platform.seat()
    ordered = make_revision(platform, seat)
    place_order(platform.conn, "gated", platform_refs={"dataset_id": "0038272", "resource_id": "r2"})
    seat.work()
    report(platform, platform.claim()[0], content(2))
    seat.work()

    def listed(name: str, *scopes: Scope) -> tuple[str, str, list[bool]]:
        key = {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(*scopes, name=name)}
        shown = call_cli("approvals", **key)
        lines = json.loads(call_cli("approvals", "--json", **key).stdout)["approvals"]
        return shown.stdout, shown.stderr, [line["may_decide"] for line in lines]

    text, hint, may_decide = listed("otto", Scope.READ, Scope.OPERATE)
    assert (may_decide, "approve" in hint, "rmhdag" in text) == ([False, False], False, False)
    assert "(needs a key with the scope reviewer)" in text
    assert "(needs a key of rita with the scope reviewer)" in text
    text, hint, may_decide = listed("sam", Scope.READ, Scope.REVIEWER)
    assert (may_decide, "reject" in hint) == ([True, False], True)
    assert "rmhdag asset approve" in text
    assert "rmhdag decide" not in text
    text, hint, may_decide = listed("rita", Scope.READ, Scope.REVIEWER)
    assert may_decide == [True, True]
    assert "rmhdag decide" in text
    # Orders of "ann"; with four eyes she may not approve them, whatever her scopes.
    text, _, may_decide = listed("ann", Scope.READ, Scope.REVIEWER)
    assert (may_decide, "rmhdag asset approve" in text) == ([True, False], True)
    set_platform(platform.conn, PlatformReview.FOUR_EYES)
    text, hint, may_decide = listed("ann", Scope.READ, Scope.REVIEWER)
    assert (may_decide, "rmhdag" in text, hint) == ([False, False], False, "")
    assert "(another reviewer: you ordered it)" in text
    assert "(needs a key of rita with the scope reviewer)" in text
    text, _, may_decide = listed("sam", Scope.READ, Scope.REVIEWER)
    assert (may_decide, "rmhdag asset approve" in text) == ([True, False], True)
    refused = call_cli(
        *("asset", "approve", key_of(ordered).asset_id, "--clearance", "public"),
        RMHDAG_URL=api.url,
        RMHDAG_KEY=api.key(Scope.READ, Scope.REVIEWER, name="ann"),
    )
    assert "asks for the approval of somebody else" in refused.stderr


def test_metrics_and_health_show_what_waits(api: ServedHere, platform: Platform) -> None:
    seat = platform.seat()
    make_revision(platform, seat)
    platform.conn.execute("UPDATE dag_approvals SET requested_at = now() - interval '15 days'")
    admin = api.client(Scope.READ, Scope.ADMIN)
    metrics = admin.get("/metrics").text
    assert "rmhdag_reviews_waiting 1.0" in metrics
    [age] = [line for line in metrics.splitlines() if line.startswith("rmhdag_oldest_review_seconds ")]
    assert float(age.split()[1]) > 15 * 86_400 - 60
    checks = admin.get("/api/v1/health").json()["components"]["system"]["checks"]
    [check] = [check for check in checks if check["name"] == "reviews"]
    assert (check["status"], check["value"].startswith("1 wait")) == ("DEGRADED", True)
