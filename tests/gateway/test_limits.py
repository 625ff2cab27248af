"""Keys, scopes and rates: who gets through, how often, and what the headers say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from starlette.requests import Request

from rmhdag.gateway.application import address_of
from rmhdag.gateway.problems import Problem
from rmhdag.gateway.rate_limits import RateLimits
from rmhdag.gateway.routes import OPERATIONS
from rmhdag.models.clients import ClientQuotas
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere
from tests.gateway.serving import Served, make_key, served_gateway

FILLED = {
    "request_id": "unknown",
    "delivery_id": "0" * 32,
    "platform_id": "ddh",
    "job_id": "0" * 32,
    "sha256": "0" * 64,
    "target": "orchestrator",
    "path:path": "livez",
}


def fill(path: str) -> str:
    for name, value in FILLED.items():
        path = path.replace(f"{{{name}}}", value)
    return path


@pytest.fixture
def narrow(migrated_database: str, api: ServedHere) -> Iterator[Served]:
    quotas = "requests_per_second=5, requests_per_hour=1000"
    with served_gateway(migrated_database, api.url, client_quotas=quotas) as running:
        yield running


def test_without_a_good_key_nothing_is_answered(gateway: Served) -> None:
    expired = make_key(gateway.dsn, Scope.B2B, name="acme", days=-1)
    other = make_key(gateway.dsn, Scope.READ, Scope.SUBMIT, Scope.OPERATE, name="acme")
    good = make_key(gateway.dsn, Scope.B2B, name="acme")
    wrong = good[:-4] + ("aaaa" if not good.endswith("aaaa") else "bbbb")
    for key in (None, "x", expired, other, wrong):
        answer = gateway.with_key(key).get("/platform/requests")
        assert answer.status_code == 401, (key, answer.text)
        assert answer.headers["www-authenticate"].startswith("Bearer")
    bodies = {gateway.with_key(key).get("/platform/me").text for key in ("x", expired, other, wrong)}
    assert len(bodies) == 1
    assert gateway.with_key(None, headers={"X-API-Key": good}).get("/platform/me").status_code == 200


def test_every_route_needs_its_scope(gateway: Served) -> None:
    keys = {
        Scope.B2B: gateway.client(Scope.B2B, name="b2b"),
        Scope.REVIEWER: gateway.client(Scope.REVIEWER, name="reviewer"),
        Scope.OPS: gateway.client(Scope.OPS, name="ops"),
    }
    for operation in OPERATIONS:
        for scope, client in keys.items():
            answer = client.request(operation.method, fill(operation.path), json={} if operation.body else None)
            is_refused = answer.status_code == 403
            assert is_refused == (scope not in operation.scopes), (operation.path, scope, answer.text)


def test_partners_reach_only_what_is_theirs() -> None:
    reachable = {operation.path for operation in OPERATIONS if Scope.B2B in operation.scopes}
    assert all(path.split("/")[1] in ("platform", "gateway", "ogc") for path in reachable)
    for operation in OPERATIONS:
        if operation.path.startswith(("/status/", "/admin/")):
            assert operation.scopes == (Scope.OPS,)
        if operation.path.startswith("/proxy/"):
            assert operation.scopes == (Scope.ADMIN,)


def test_unknown_paths_and_methods_are_problems(gateway: Served) -> None:
    client = gateway.client()
    missing = client.get("/platform/nothing")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    wrong = client.delete("/platform/submit")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert client.head("/platform/me").status_code == 200


def test_headers_say_what_is_left_and_when_to_come_again(narrow: Served) -> None:
    client = narrow.client()
    answers = [client.get("/platform/me") for _ in range(20)]
    assert answers[0].status_code == 200
    assert answers[0].headers["ratelimit-policy"] == '"second";q=5;w=1, "hour";q=1000;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"second";r=4;t=1, "hour";r=999;t=')
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].headers["retry-after"] == "1"
    assert refused[0].json()["code"] == "too_many_requests"
    # Another client is not concerned.
    assert narrow.client(name="bolt").get("/platform/me").status_code == 200


def test_a_quota_of_its_own_counts_within_seconds(narrow: Served, api: ServedHere) -> None:
    api.client(Scope.ADMIN).post("/api/v1/clients/acme", json={"quotas": {"requests_per_second": 1000}})
    client = narrow.client()
    assert {client.get("/platform/me").status_code for _ in range(30)} == {200}


def test_a_revoked_key_is_refused_within_seconds(gateway: Served, api: ServedHere) -> None:
    client = gateway.client()
    assert client.get("/platform/me").status_code == 200
    key_id = client.headers["authorization"].split("_")[1]
    assert api.client(Scope.ADMIN).post(f"/api/v1/keys/{key_id}/revoke").status_code == 200
    deadline = time.monotonic() + 60
    while client.get("/platform/me").status_code != 401:
        assert time.monotonic() < deadline


def test_guessing_keys_is_slowed_down(gateway: Served) -> None:
    stranger = gateway.with_key("rmhdag_0123456789abcdef_" + "a" * 43)
    statuses = [stranger.get("/platform/me").status_code for _ in range(60)]
    assert set(statuses) == {401, 429}


def test_two_windows_are_counted_apart() -> None:
    now = [0.0]
    limits = RateLimits(lambda: now[0])
    quotas = ClientQuotas(requests_per_second=10, requests_per_hour=15)
    for _ in range(10):
        limits.take("n", "c", quotas)
    with pytest.raises(Problem) as refusal:
        limits.take("n", "c", quotas)
    assert refusal.value.headers["Retry-After"] == "1"
    now[0] = 1.0
    for _ in range(5):
        limits.take("n", "c", quotas)
    with pytest.raises(Problem) as refusal:
        limits.take("n", "c", quotas)
    # The hour is used up: a fifteenth of it gives one back.
    assert 230 <= int(refusal.value.headers["Retry-After"]) <= 240
    limits.take("n", "other", quotas)


def request_from(client: tuple[str, int] | None, forwarded: str | None) -> Request:
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    return Request({"type": "http", "client": client, "headers": headers})


@pytest.mark.parametrize(
    ("client", "forwarded", "trusted", "address"),
    [
        (("10.0.0.1", 1), None, 0, "10.0.0.1"),
        (("10.0.0.1", 1), "1.2.3.4", 0, "10.0.0.1"),
        (("10.0.0.1", 1), "6.6.6.6, 1.2.3.4", 1, "1.2.3.4"),
        (("10.0.0.1", 1), "6.6.6.6, 1.2.3.4, 5.5.5.5", 2, "1.2.3.4"),
        (None, "6.6.6.6, 1.2.3.4:55", 0, "1.2.3.4"),
        (None, "[2001:db8::1]:443", 0, "2001:db8::1"),
        (None, "2001:db8::1", 0, "2001:db8::1"),
        (None, "nonsense", 0, "unknown"),
        (None, None, 0, "unknown"),
    ],
)
def test_the_address_of_a_caller_comes_from_a_trusted_proxy(
    client: tuple[str, int] | None, forwarded: str | None, trusted: int, address: str
) -> None:
    assert address_of(request_from(client, forwarded), trusted) == address


def test_the_documents_are_public_and_small(gateway: Served) -> None:
    stranger: httpx.Client = gateway.with_key(None)
    assert stranger.get("/openapi.json").json()["openapi"] == "3.1.0"
    page = stranger.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
