"""Who may act for a client at the API: a key with the scope `gateway`, and no other."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect, enter_schema
from tests.api.serving import ServedHere
from tests.gateway.orders import ORDER, order
from tests.gateway.serving import Served
from tests.orchestrator.platform import Platform

ACTING = {"X-Rmhdag-Namespace": "north", "X-Rmhdag-Name": "acme", "X-Rmhdag-Scopes": "read submit operate"}


def me(client: httpx.Client, **headers: str) -> httpx.Response:
    return client.get("/api/v1/me", headers={**ACTING, **headers})


def test_a_gateway_acts_for_a_client_with_no_more_than_it_names(api: ServedHere) -> None:
    client = api.client(Scope.GATEWAY, name="gateway")
    shown = me(client).json()
    assert (shown["name"], shown["namespace"], shown["scopes"]) == ("acme", "north", ["operate", "read", "submit"])
    shown = me(client, **{"X-Rmhdag-Scopes": "read admin worker platform gateway"}).json()
    assert shown["scopes"] == ["read"]
    assert me(client, **{"X-Rmhdag-Scopes": "admin platform"}).status_code == 403
    assert me(client, **{"X-Rmhdag-Name": "%0A"}).status_code == 400


def test_without_a_client_a_gateway_may_only_ask_who_it_is(api: ServedHere) -> None:
    client = api.client(Scope.GATEWAY, name="gateway")
    assert client.get("/api/v1/me").json()["name"] == "gateway"
    for path in ("/api/v1/jobs", "/api/v1/keys", "/api/v1/clients"):
        assert client.get(path).status_code == 403
    assert client.post("/api/v1/submit", json=ORDER).status_code == 403


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.GATEWAY])
def test_no_other_key_acts_for_anybody(api: ServedHere, scope: Scope) -> None:
    client = api.client(scope, name="tester")
    answer = me(client)
    if answer.status_code == 200:
        assert (answer.json()["name"], answer.json()["namespace"]) == ("tester", "default")
        assert answer.json()["scopes"] == [scope]
    else:
        assert answer.status_code == 403


def test_an_administrator_cannot_make_a_gateway_key(api: ServedHere) -> None:
    admin = api.client(Scope.ADMIN)
    assert admin.post("/api/v1/keys", json={"name": "x", "scopes": ["gateway"]}).status_code == 403
    assert admin.post("/api/v1/keys", json={"name": "x", "scopes": ["b2b", "ops", "sandbox"]}).status_code == 201


def test_an_order_belongs_to_the_namespace_of_its_client(gateway: Served, platform: Platform) -> None:
    platform.conn.execute("UPDATE dag_workflows SET namespace = 'north'")
    order(gateway.client(name="acme", namespace="north"))
    order(gateway.client(name="bolt"), 404)
    rows = platform.conn.execute("SELECT namespace, client_id FROM dag_api_requests").fetchall()
    assert rows == [("north", "acme")]


def test_partners_keys_open_nothing_at_the_api(api: ServedHere) -> None:
    client = api.client(Scope.B2B, Scope.OPS, Scope.SANDBOX)
    for path in ("/api/v1/jobs", "/api/v1/assets", "/api/v1/requests/x", "/api/v1/callbacks", "/api/v1/keys"):
        assert client.get(path).status_code == 403
    assert client.post("/api/v1/submit", json=ORDER).status_code == 403


def test_a_partner_rotates_its_own_key_and_both_work(gateway: Served) -> None:
    client = gateway.client()
    answer = client.post("/platform/keys/rotate", json={"overlap_hours": 1})
    assert answer.status_code == 201, answer.text
    following = gateway.with_key(answer.json()["key"])
    assert following.get("/platform/me").json()["client_id"] == "acme"
    assert client.get("/platform/me").status_code == 200
    # Two live keys are the most.
    assert following.post("/platform/keys/rotate").status_code == 409


def test_quotas_of_a_client_are_set_and_hold(gateway: Served, api: ServedHere, platform: Platform) -> None:
    admin = api.client(Scope.ADMIN, name="root")
    changed = admin.post("/api/v1/clients/acme", json={"quotas": {"open_orders": 2, "orders_per_day": 3}})
    assert changed.status_code == 200, changed.text
    client = gateway.client()
    seat = platform.seat()
    orders: list[dict[str, Any]] = [{"platform_refs": {"dataset_id": "1", "resource_id": f"r{n}"}} for n in range(5)]
    for changes in orders[:2]:
        order(client, **changes)
    refused = order(client, 403, **orders[2])
    assert refused.json()["code"] == "client_quota_exceeded"
    # What was placed before is no new order.
    first = client.get("/platform/requests").json()["requests"][-1]["request_id"]
    order(client, request_id=first, **orders[0])
    # Another client has its own.
    order(gateway.client(name="bolt"), **orders[4])
    platform.finish(seat)
    order(client, **orders[2])
    platform.finish(seat)
    assert "24 hours" in order(client, 403, **orders[3]).json()["detail"]
    assert admin.post("/api/v1/clients/acme", json={"quotas": {"orders_per_day": None}}).status_code == 200
    order(client, **orders[3])
    listed = admin.get("/api/v1/clients").json()["clients"]
    assert [line["client_id"] for line in listed] == ["acme"]
    assert admin.post("/api/v1/clients/acme", json={"quotas": {"nothing": 1}}).status_code == 422


def test_a_disabled_client_is_refused(gateway: Served, api: ServedHere) -> None:
    admin = api.client(Scope.ADMIN, name="root")
    admin.post("/api/v1/clients/acme", json={"active": False})
    answer = gateway.client().get("/platform/me")
    assert (answer.status_code, answer.json()["code"]) == (403, "client_disabled")
    with connect(gateway.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        rows = conn.execute("SELECT action, subject FROM dag_audit WHERE action = 'client.change'").fetchall()
    assert rows == [("client.change", "client acme")]
