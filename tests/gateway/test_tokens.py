"""Tokens of an issuer beside keys: real signatures, a real issuer on loopback, bound to a client by its operator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from rmhdag.api.oidc import OidcSettings
from rmhdag.gateway.problems import Problem, unavailable
from rmhdag.gateway.tokens import REMEMBER_SECONDS, Tokens
from rmhdag.models.api.clients import TokenIdentity
from rmhdag.models.scopes import Scope
from tests.api.issuing import Issuer
from tests.api.serving import ServedHere
from tests.api.serving import served as served_api
from tests.gateway.orders import order
from tests.gateway.serving import Served, served_gateway
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until

AUDIENCE = "api://gateway"
APPLICATION = "5d6f0a5c-0000-4000-8000-00000000acme"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
def api(migrated_database: str, issuer: Issuer) -> Iterator[ServedHere]:
    with served_api(migrated_database, partner_issuers=(partners(issuer),)) as running:
        yield running


def partners(issuer: Issuer) -> OidcSettings:
    return OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes={}, retry_seconds=0)


def token(issuer: Issuer, **changed: Any) -> str:
    """As an application gets it with client credentials."""
    plain = {"aud": AUDIENCE, "azp": APPLICATION, "sub": "principal-of-acme", "roles": None}
    return issuer.token(**{**plain, **changed})


BINDERS = (Scope.ADMIN, Scope.PLATFORM)


def bind(api: ServedHere, issuer: Issuer, expect: int = 201, client: str = "acme", **changed: Any) -> Any:
    body = {"issuer": issuer.url, "kind": "application", "value": APPLICATION, "scopes": ["b2b"], **changed}
    answer = api.client(*BINDERS).post(f"/api/v1/clients/{client}/identities", json=body)
    assert answer.status_code == expect, answer.text
    return answer.json()


def test_an_application_orders_with_its_token(
    gateway: Served, api: ServedHere, issuer: Issuer, platform: Platform
) -> None:
    identity = bind(api, issuer)
    client = gateway.with_key(token(issuer))
    shown = client.get("/platform/me").json()
    assert (shown["client_id"], shown["scopes"], shown["key"]) == ("acme", ["b2b"], None)
    assert datetime.fromisoformat(shown["expires_at"]) > datetime.now(UTC)
    placed = order(client).json()["request_id"]
    # The key of the same client sees the same orders.
    assert gateway.client(name="acme").get(f"/platform/status/{placed}").status_code == 200
    assert gateway.client(name="bolt").get(f"/platform/status/{placed}").status_code == 404
    assert client.get("/status/jobs").json()["code"] == "scope_missing"
    assert client.post("/platform/keys/rotate", json={}).json()["code"] == "not_a_key"
    admin = api.client(Scope.ADMIN)
    path = "/api/v1/clients/acme/identities"
    wait_until(lambda: admin.get(path).json()["identities"][0]["last_used_at"] is not None)
    assert admin.delete(f"{path}/{identity['identity_id']}").json()["value"] == APPLICATION
    wait_until(lambda: client.get("/platform/me").status_code == 403)


def test_a_subject_is_bound_before_its_application(gateway: Served, api: ServedHere, issuer: Issuer) -> None:
    bind(api, issuer)
    bind(api, issuer, client="bolt", kind="subject", value="principal-of-bolt", scopes=["b2b", "sandbox"])
    assert gateway.with_key(token(issuer)).get("/platform/me").json()["client_id"] == "acme"
    shown = gateway.with_key(token(issuer, sub="principal-of-bolt")).get("/platform/me").json()
    assert (shown["client_id"], shown["sandbox"]) == ("bolt", True)


@pytest.mark.parametrize(
    "named",
    [
        {"azp": None, "appid": APPLICATION},
        {"azp": None, "client_id": APPLICATION},
        {"azp": None, "cid": APPLICATION, "sub": APPLICATION, "scp": ["orders"]},
        {"idtyp": "app"},
    ],
)
def test_where_issuers_name_the_application(
    gateway: Served, api: ServedHere, issuer: Issuer, named: dict[str, Any]
) -> None:
    bind(api, issuer)
    assert gateway.with_key(token(issuer, **named)).get("/platform/me").status_code == 200


@pytest.mark.parametrize(
    "named",
    [
        {"scp": "user_impersonation"},
        {"idtyp": "user"},
        {"sid": "a-browser"},
        {"upn": "ada@example.org"},
        {"azp": "another-application"},
        {"azp": None},
        {"azp": [APPLICATION]},
    ],
)
def test_a_person_who_signs_in_at_the_application_is_not_the_application(
    gateway: Served, api: ServedHere, issuer: Issuer, named: dict[str, Any]
) -> None:
    bind(api, issuer)
    answer = gateway.with_key(token(issuer, **named)).get("/platform/me")
    assert (answer.status_code, answer.json()["code"]) == (403, "client_unknown")
    assert issuer.url in answer.json()["remedy"]


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "api://rmhdag"},
        {"iss": "https://other.example"},
        {"iss": ["x"]},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"at_hash": "x"},
        {"nonce": "x"},
    ],
)
def test_a_token_that_proves_nothing(gateway: Served, api: ServedHere, issuer: Issuer, changed: dict[str, Any]) -> None:
    bind(api, issuer)
    answer = gateway.with_key(token(issuer, **changed)).get("/platform/me")
    assert answer.status_code == 401, answer.text
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert issuer.url not in answer.text


def test_a_forged_token(gateway: Served, api: ServedHere, issuer: Issuer) -> None:
    bind(api, issuer)
    other = Issuer()
    try:
        forged = token(other, iss=issuer.url)
    finally:
        other.close()
    genuine = token(issuer)
    head, _, signature = genuine.split(".")
    body = token(issuer, sub="somebody-else").split(".")[1]
    for text in (forged, f"{head}.{body}.{signature}", f"{head}.{body}.", "a.b.c", "..", "x" * 20_000 + ".a.b"):
        assert gateway.with_key(text).get("/platform/me").status_code in (401, 429)


def test_a_disabled_client_is_refused_whatever_it_sends(gateway: Served, api: ServedHere, issuer: Issuer) -> None:
    bind(api, issuer)
    api.client(Scope.ADMIN).post("/api/v1/clients/acme", json={"active": False})
    assert gateway.with_key(token(issuer)).get("/platform/me").json()["code"] == "client_disabled"


def test_quotas_are_those_of_the_client_with_key_and_token_together(
    gateway: Served, api: ServedHere, issuer: Issuer
) -> None:
    bind(api, issuer)
    api.client(Scope.ADMIN).post("/api/v1/clients/acme", json={"quotas": {"requests_per_hour": 2}})
    assert gateway.with_key(token(issuer)).get("/platform/me").status_code == 200
    assert gateway.client(name="acme").get("/platform/me").status_code == 200
    assert gateway.with_key(token(issuer)).get("/platform/me").status_code == 429


def test_a_known_token_polls_without_the_issuer_and_the_api(
    migrated_database: str, issuer: Issuer, platform: Platform
) -> None:
    with ExitStack() as open_gateway:
        with served_api(migrated_database, partner_issuers=(partners(issuer),)) as api:
            gateway = open_gateway.enter_context(served_gateway(migrated_database, api.url))
            bind(api, issuer)
            client = gateway.with_key(token(issuer))
            placed = order(client).json()["links"]["status"]
        issuer.close()
        forget_holders(gateway)
        assert client.get(placed).status_code == 200
        stranger = gateway.with_key(token(issuer, jti="another")).get(placed)
        assert (stranger.status_code, stranger.json()["code"]) == (503, "unavailable")
        assert int(stranger.headers["retry-after"]) > 0


def forget_holders(gateway: Served) -> None:
    """As after five seconds."""
    gateway.gateway._keys._remembered.clear()


def test_an_issuer_that_does_not_answer_is_no_refusal(gateway: Served, api: ServedHere, issuer: Issuer) -> None:
    bind(api, issuer)
    issuer.answers["/keys"] = None
    answer = gateway.with_key(token(issuer)).get("/platform/me")
    assert answer.status_code == 503, answer.text
    assert gateway.client(name="acme").get("/platform/me").status_code == 200
    issuer.publish()
    assert gateway.with_key(token(issuer)).get("/platform/me").status_code == 200


def test_without_issuers_no_token_counts(migrated_database: str, issuer: Issuer) -> None:
    with served_api(migrated_database) as plain:
        answer = plain.client(Scope.GATEWAY, name="gateway").post(
            "/api/v1/gateway/token", json={"token": token(issuer)}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "token_refused")


def test_only_a_gateway_reads_tokens_and_notes_uses(api: ServedHere, issuer: Issuer) -> None:
    for scope in (Scope.ADMIN, Scope.PLATFORM, Scope.B2B):
        client = api.client(scope)
        assert client.post("/api/v1/gateway/token", json={"token": token(issuer)}).status_code == 403
        assert client.post("/api/v1/gateway/uses", json={"key_ids": []}).status_code == 403


def test_who_may_bind_what(api: ServedHere, issuer: Issuer) -> None:
    bind(api, issuer)
    # It belongs to one client, whatever namespace asks for it.
    assert bind(api, issuer, 409, client="bolt")["code"] == "identity_taken"
    other = api.client(*BINDERS, namespace="north")
    body = {"issuer": issuer.url, "kind": "application", "value": APPLICATION, "scopes": ["b2b"]}
    assert other.post("/api/v1/clients/acme/identities", json=body).status_code == 409
    assert other.get("/api/v1/clients/acme/identities").json()["identities"] == []
    for scopes in (["admin"], ["gateway"], ["platform"], ["read"], []):
        bind(api, issuer, 422, value="x", scopes=scopes)
    wrong = {**body, "issuer": "not a url"}
    assert other.post("/api/v1/clients/acme/identities", json=wrong).status_code == 422
    # Or a tenant would be the first to bind the partner of another one, and get its orders.
    free = {**body, "value": "of-south"}
    for scope in (Scope.READ, Scope.PLATFORM, Scope.ADMIN):
        refused = api.client(scope, namespace="north").post("/api/v1/clients/acme/identities", json=free)
        assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    rows = api.client(Scope.ADMIN).get("/api/v1/audit").json()["entries"]
    assert [row["action"] for row in rows].count("client.bind") == 1


def test_the_last_use_of_a_key_is_shown(gateway: Served, api: ServedHere) -> None:
    client = gateway.client(name="acme")
    assert client.get("/platform/me").status_code == 200
    admin = api.client(Scope.ADMIN)

    def last_used() -> Any:
        return next(line["last_used_at"] for line in admin.get("/api/v1/keys").json()["keys"] if line["name"] == "acme")

    wait_until(lambda: last_used() is not None)


class Answers:
    """What the API answers, one after the other."""

    def __init__(self, *answers: TokenIdentity | Problem) -> None:
        self._answers = list(answers)
        self.now = 1_000.0
        self.tokens = Tokens(self.read, clock=lambda: self.now)

    async def read(self, text: str) -> TokenIdentity:
        answer = self._answers.pop(0)
        if isinstance(answer, Problem):
            raise answer
        return answer

    def ask(self) -> TokenIdentity | int:
        try:
            return asyncio.run(self.tokens.identity_of("t"))
        except Problem as problem:
            return problem.status

    @property
    def unasked(self) -> int:
        return len(self._answers)


IDENTITY = TokenIdentity(issuer="https://i", application="a", subject=None, expires_at=1_000.0 + 3_600)


def test_what_was_read_is_read_again_after_ten_minutes_and_forgotten_at_its_end() -> None:
    api = Answers(IDENTITY, IDENTITY, unavailable(), unavailable())
    assert api.ask() == api.ask() == IDENTITY
    assert api.unasked == 3
    api.now += REMEMBER_SECONDS + 1
    assert api.ask() == IDENTITY
    assert api.unasked == 2
    # The API is away: what it said before still counts, as long as the token lives.
    api.now += REMEMBER_SECONDS + 1
    assert api.ask() == IDENTITY
    api.now += 3_600
    assert api.ask() == 503
    assert api.unasked == 0


def test_a_token_that_is_refused_when_it_is_read_again_stays_refused() -> None:
    api = Answers(IDENTITY, Problem(401, "token_refused", "no"), unavailable())
    assert api.ask() == IDENTITY
    api.now += REMEMBER_SECONDS + 1
    assert (api.ask(), api.ask()) == (401, 503)
