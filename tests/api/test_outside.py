"""Unpublishing, external services and promoted datasets over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.outside import announce_approval
from rmhdag.store.batch_rows import RevisionKey
from tests.api.serving import ServedHere, served
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_published_revisions import make
from tests.orchestrator.test_publishing import blob, collection, item

HOOK = "http://127.0.0.1:9999/hook"


@pytest.fixture
def outside_api(platform: Platform) -> Iterator[ServedHere]:
    rules = Rules(frozenset({"127.0.0.1:9999"}))
    with served(platform.dsn, callbacks=CallbackSettings(rules=rules, allow_plain=True)) as running:
        yield running


@pytest.fixture
def http(outside_api: ServedHere) -> httpx.Client:
    return outside_api.client(Scope.ADMIN, name="ada")


@pytest.fixture
def asset_id(platform: Platform) -> str:
    platform.register(raster_workflow())
    found: str = make(platform, platform.seat(), (blob(), collection(), item("i", n=1))).request.asset_id
    return found


def ask(http: httpx.Client, method: str, path: str, body: Any = None, expected: int = 200, /, **query: Any) -> Any:
    answer = http.request(method, f"/api/v1/{path}", json=body, params=query)
    assert answer.status_code == expected, answer.text
    return answer.json()


def test_a_preview_is_the_default_and_the_asset_says_what_was_unpublished(http: httpx.Client, asset_id: str) -> None:
    path = f"assets/{asset_id}/unpublish"
    seen = ask(http, "POST", path, {})
    assert (seen["dry_run"], seen["status"], seen["revisions"]) == (True, "dry_run", [1])
    [file] = seen["files"]
    assert (file["zone"], file["container"], file["path"], file["shared_with"]) == ("silver", "cogs", "a.tif", None)
    assert seen["items"] == [{"collection_id": "c", "item_id": "i", "revision": 1, "shown": True}]
    assert ask(http, "GET", f"assets/{asset_id}")["current_revision"] == 1
    done = ask(http, "POST", path, {"revision": 1, "dry_run": False, "reason": "wrong"})
    assert (done["status"], done["file_count"], len(done["unpublishing_ids"])) == ("pending", 1, 1)
    asset = ask(http, "GET", f"assets/{asset_id}")
    assert (asset["current"], asset["current_revision"]) == (None, None)
    [line] = asset["unpublishings"]
    assert (line["status"], line["issued_by"], line["reason"]) == ("pending", "ada", "wrong")
    assert line["artifacts"]["named"]["files"] == ["silver/cogs/a.tif"]
    assert ask(http, "GET", f"assets/{asset_id}/revisions/1")["unpublished_at"] is not None
    page = ask(http, "GET", f"assets/{asset_id}/unpublishings", limit=1)
    assert (page["unpublishings"], page["next_cursor"]) == ([line], None)
    again = ask(http, "POST", path, {"dry_run": False})
    assert (again["status"], again["revisions"]) == ("nothing_left", [])


def test_refusals_say_what_to_do(http: httpx.Client, platform: Platform, asset_id: str) -> None:
    path = f"assets/{asset_id}/unpublish"
    missing = ask(http, "POST", path, {"revision": 7}, 404)
    assert "revision 7" in missing["detail"]
    assert "nothing to unpublish" in missing["detail"]
    assert ask(http, "POST", f"assets/{'0' * 32}/unpublish", {}, 404)["code"] == "not_found"
    platform.conn.execute("UPDATE dag_asset_revisions SET review_state = 'approved'")
    refused = ask(http, "POST", path, {"dry_run": False}, 409)
    assert (refused["code"], "force" in refused["remedy"]) == ("approved_content", True)
    # A preview changes nothing, so it needs no force; it says that the deed does.
    for force in (True, False):
        shown = ask(http, "POST", path, {"force": force})
        assert (shown["status"], shown["approved_revisions"], shown["file_count"]) == ("dry_run", [1], 1)
    ask(http, "POST", path, {"dry_run": "false"}, 422)


def test_a_service_from_its_set_up_to_its_calls(http: httpx.Client, platform: Platform, asset_id: str) -> None:
    made = ask(http, "PUT", "services/portal", {"kind": "webhook", "url": HOOK})
    assert (made["is_new"], made["new_secret"][:6], made["has_secret"]) == (True, "whsec_", True)
    changed = ask(http, "PUT", "services/portal", {"kind": "webhook", "url": HOOK, "enabled": True})
    assert (changed["is_new"], changed["new_secret"]) == (False, None)
    assert "secret" not in ask(http, "GET", "services/portal")
    assert [one["name"] for one in ask(http, "GET", "services")["services"]] == ["portal"]
    with platform.conn.transaction():
        announce_approval(platform.conn, RevisionKey("default", asset_id, 1), "public", requested_by="ada")
    [line] = ask(http, "GET", "services/portal/calls")["calls"]
    assert (line["action"], line["status"], line["service"]) == ("approval", "pending", "portal")
    retry = f"services/portal/calls/{line['call_id']}/retry"
    assert ask(http, "POST", retry, None, 409)["code"] == "call_not_dead"
    platform.conn.execute("UPDATE dag_service_calls SET status = 'dead', settled_at = clock_timestamp()")
    assert ask(http, "GET", "services/portal/calls", status="dead")["calls"][0]["call_id"] == line["call_id"]
    assert ask(http, "POST", retry)["status"] == "pending"
    assert ask(http, "DELETE", "services/portal") == {"name": "portal", "calls_not_delivered": 1}
    ask(http, "GET", "services/portal", None, 404)
    actions = [one["action"] for one in ask(http, "GET", "audit", action="service")["entries"]]
    assert actions == ["service.delete", "service.retry", "service.put", "service.put"]


def test_a_service_that_is_wrong_is_refused_with_its_places(http: httpx.Client) -> None:
    inside = ask(http, "PUT", "services/portal", {"kind": "webhook", "url": "http://10.0.0.1/"}, 422)
    assert inside["code"] == "callback_url_refused"
    wrong = ask(http, "PUT", "services/adf", {"kind": "adf", "settings": {"factory": "a/b"}}, 422)
    assert {place["pointer"] for place in wrong["errors"]} == {
        "/settings/subscription_id",
        "/settings/resource_group",
        "/settings/factory",
    }
    ask(http, "PUT", "services/Not-A-Name", {"kind": "webhook", "url": HOOK}, 422)


def test_services_are_for_administrators_and_calls_for_operators(outside_api: ServedHere, http: httpx.Client) -> None:
    ask(http, "PUT", "services/portal", {"kind": "webhook", "url": HOOK})
    operator = outside_api.client(Scope.OPERATE, Scope.READ, Scope.SUBMIT)
    ask(operator, "GET", "services", None, 403)
    assert ask(operator, "GET", "services/portal/calls")["calls"] == []
    ask(outside_api.client(Scope.READ), "GET", "services/portal/calls", None, 403)


def test_promote_change_and_demote(http: httpx.Client, asset_id: str) -> None:
    body = {"collection_id": "c", "item_id": "i", "title": "A map", "tags": ["flood"], "classification": "public"}
    made = ask(http, "PUT", "promoted/map", body)
    assert (made["title"], made["visible_outside"], made["in_gallery"], made["warnings"]) == ("A map", True, False, [])
    changed = ask(http, "PUT", "promoted/map", {"collection_id": "c", "classification": "OUO"})
    assert (changed["item_id"], changed["title"], changed["classification"]) == (None, None, "restricted")
    assert changed["promoted_at"] == made["promoted_at"]
    refused = ask(http, "PUT", "promoted/other", {"collection_id": "c", "item_id": "never"}, 422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("unknown_reference", "/item_id")
    assert [one["promoted_id"] for one in ask(http, "GET", "promoted")["promoted"]] == ["map"]
    assert ask(http, "GET", "promoted", outside=True)["promoted"] == []
    ask(http, "DELETE", "promoted/map")
    ask(http, "DELETE", "promoted/map", None, 404)
    actions = [one["action"] for one in ask(http, "GET", "audit", action="promoted")["entries"]]
    assert actions == ["promoted.delete", "promoted.put", "promoted.put"]


def test_the_gallery_has_an_order_and_pages_of_all(http: httpx.Client, asset_id: str) -> None:
    for name in ("a", "b", "d"):
        ask(http, "PUT", f"promoted/{name}", {"collection_id": "c", "classification": "public"})
    ordered = ask(http, "POST", "promoted-gallery", {"promoted_ids": ["d", "a"]})
    assert [one["promoted_id"] for one in ordered["promoted"]] == ["d", "a"]
    gallery = ask(http, "GET", "promoted-gallery", outside=True)["promoted"]
    assert [(one["promoted_id"], one["gallery_order"]) for one in gallery] == [("d", 1), ("a", 2)]
    assert ask(http, "POST", "promoted-gallery", {"promoted_ids": ["x"]}, 422)["code"] == "unknown_promoted"
    ask(http, "POST", "promoted-gallery", {"promoted_ids": ["a", "a"]}, 422)
    assert ask(http, "POST", "promoted-gallery", {"promoted_ids": []})["promoted"] == []
    first = ask(http, "GET", "promoted", limit=2)
    rest = ask(http, "GET", "promoted", limit=2, cursor=first["next_cursor"])
    assert [one["promoted_id"] for page in (first, rest) for one in page["promoted"]] == ["a", "b", "d"]


def test_what_the_platform_relies_on_is_protected(http: httpx.Client, asset_id: str) -> None:
    body = {"collection_id": "c", "system_role": "admin0_boundaries"}
    ask(http, "PUT", "promoted/borders", body)
    [found] = ask(http, "GET", "promoted", system_role="admin0_boundaries")["promoted"]
    assert (found["promoted_id"], found["is_system_reserved"]) == ("borders", True)
    assert ask(http, "PUT", "promoted/second", body, 409)["code"] == "role_taken"
    assert ask(http, "PUT", "promoted/borders", {"collection_id": "c"}, 409)["code"] == "system_reserved"
    assert ask(http, "DELETE", "promoted/borders", None, 409)["code"] == "system_reserved"
    ask(http, "DELETE", "promoted/borders", confirm_system=True)


def test_nothing_that_is_withheld_or_gone_is_shown_outside(
    http: httpx.Client, platform: Platform, asset_id: str
) -> None:
    platform.conn.execute("UPDATE dag_asset_revisions SET review_state = 'approved', clearance = 'restricted'")
    body = {"collection_id": "c", "item_id": "i", "classification": "public"}
    assert ask(http, "PUT", "promoted/map", body, 409)["code"] == "not_public"
    platform.conn.execute("UPDATE dag_asset_revisions SET clearance = 'public'")
    assert ask(http, "PUT", "promoted/map", body)["visible_outside"] is True
    platform.conn.execute("UPDATE dag_asset_revisions SET clearance = 'restricted'")
    found = ask(http, "GET", "promoted/map")
    assert (found["visible_outside"], len(found["warnings"])) == (False, 1)
    assert ask(http, "GET", "promoted", outside=True)["promoted"] == []
    ask(http, "POST", f"assets/{asset_id}/unpublish", {"dry_run": False, "force": True})
    found = ask(http, "GET", "promoted/map")
    assert (found["visible_outside"], "no longer has" in found["warnings"][0]) == (False, True)
