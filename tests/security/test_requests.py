"""Requests that others before us might read differently, hosts that are not ours, and tokens that are not for us."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
import pytest

from rmhdag.api.oidc import OidcSettings, TokenRefused, TokenVerifier
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema
from tests.api.issuing import AUDIENCE, Issuer
from tests.api.serving import Served, served
from tests.request_heads import AMBIGUOUS, GOOD, open_connection, send
from tests.store.waiting import wait_until

ROLES = {"Reader": frozenset({Scope.READ}), "Head": frozenset({Scope.ADMIN})}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
def api(migrated_database: str, issuer: Issuer) -> Iterator[Served]:
    oidc = OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes=ROLES)
    with served(migrated_database, oidc=oidc, hosts=frozenset({"ops.example.org"})) as running:
        yield running


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(api: Served, text: bytes) -> None:
    answer = send(api.url, text)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"invalid_http" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_line_feeds_of_bodies_and_pieces_of_heads_are_fine(api: Served) -> None:
    assert send(api.url, GOOD).startswith(b"HTTP/1.1 200 ")
    body = b'{"a":\n1}\n\n'
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert send(api.url, head + body).startswith(b"HTTP/1.1 401 ")
    with open_connection(api.url) as connection:
        for byte in GOOD:
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_the_second_of_two_requests_is_looked_at_too(api: Served) -> None:
    first = GOOD.replace(b"Connection: close\r\n", b"")
    with open_connection(api.url) as connection:
        connection.sendall(first + AMBIGUOUS[0])
        answers = b""
        while piece := connection.recv(65536):
            answers += piece
    assert b" 200 " in answers.partition(b"\r\n")[0]
    assert b"invalid_http" in answers


@pytest.fixture
def browser(api: Served) -> httpx.Client:
    with connect(api.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        login = api_keys.create_login(conn, "ada", [Scope.ADMIN], created_by="up-test", namespace="default")
    client = api.anonymous()
    assert client.get("/login", params={"token": login}).status_code == 303
    return client


def test_a_cookie_counts_under_known_names_only(api: Served, browser: httpx.Client) -> None:
    port = urlsplit(api.url).port
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", f"evil.example:{port}", "[::", ""):
        answer = browser.get("/api/v1/me", headers={"Host": host})
        assert answer.status_code in (400, 403), host
        assert answer.status_code == 400 or answer.json()["code"] == "unknown_host"
    for host in (f"127.0.0.1:{port}", "localhost", f"mine.localhost:{port}", "[::1]:1", "ops.example.org"):
        assert browser.get("/api/v1/me", headers={"Host": host}).status_code == 200, host
    # A key is no cookie: whoever sends it knows where.
    assert api.client(Scope.READ).get("/api/v1/me", headers={"Host": "proxy.example"}).status_code == 200


def days_left(made: dict[str, str]) -> float:
    return (datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)).total_seconds() / 86_400


def test_keys_of_those_who_stay_for_hours_have_an_end(api: Served, issuer: Issuer, browser: httpx.Client) -> None:
    wanted = {"name": "ci", "scopes": ["read"]}
    token = api.anonymous(headers={"Authorization": f"Bearer {issuer.token(roles=['Head'])}"})
    same_origin = {"Sec-Fetch-Site": "same-origin"}
    for answer in (
        token.post("/api/v1/keys", json=wanted),
        browser.post("/api/v1/keys", json=wanted, headers=same_origin),
    ):
        assert answer.status_code == 201, answer.text
        assert 89 < days_left(answer.json()) <= 90
    lasting = api.client(Scope.ADMIN).post("/api/v1/keys", json=wanted).json()
    assert lasting["expires_at"] is None
    rotated = token.post(f"/api/v1/keys/{lasting['key_id']}/rotate", json={}).json()
    assert 89 < days_left(rotated) <= 90
    given = token.post("/api/v1/keys", json={**wanted, "expires_days": 400}).json()
    assert 399 < days_left(given) <= 400


def signed(issuer: Issuer, kind: str | None, **claims: object) -> str:
    headers: dict[str, Any] = {"kid": "first", "typ": kind}
    return jwt.encode(issuer.claims(**claims), issuer.private["first"], "RS256", headers)


def test_access_tokens_are_taken_and_id_tokens_are_not(issuer: Issuer) -> None:
    settings = OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes=ROLES)
    verifier = TokenVerifier(settings)
    for kind in ("at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"):
        assert verifier.verify(signed(issuer, kind)).name == "ada"
    assert verifier.verify(signed(issuer, "JWT", typ="Bearer", nonce="n")).name == "ada"
    for other in ("logout+jwt", "dpop+jwt", "secevent+jwt", None, ""):
        with pytest.raises(TokenRefused, match="type"):
            verifier.verify(signed(issuer, other))
    for changed in ({"nonce": "n"}, {"at_hash": "h"}, {"c_hash": "h"}, {"typ": "ID"}):
        with pytest.raises(TokenRefused, match="ID token"):
            verifier.verify(signed(issuer, "JWT", **changed))
    lenient = TokenVerifier(
        OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes=ROLES, token_types=("none",))
    )
    assert lenient.verify(signed(issuer, None)).name == "ada"


def test_a_stream_ends_with_its_token(api: Served, issuer: Issuer) -> None:
    expires_at = int(time.time()) + 3
    token = issuer.token(exp=expires_at)
    client = api.anonymous(headers={"Authorization": f"Bearer {token}"})
    with client.stream("GET", "/api/v1/events/stream") as answer:
        assert answer.status_code == 200
        answer.read()  # to its end
    assert time.time() >= expires_at - 1


def test_a_client_that_does_not_read_its_answers_is_cut_off(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would stay in memory for as long as it likes."""
    monkeypatch.setattr("rmhdag.machine.strict_http.UNREAD_SECONDS", 0.2)
    with served(migrated_database) as api, socket.socket() as client:
        host, port = api.url.removeprefix("http://").split(":")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect((host, int(port)))
        head = f"GET /openapi.json HTTP/1.1\r\nHost: x\r\nX-API-Key: {api.key(Scope.READ)}\r\n\r\n".encode()
        client.sendall(head * 40)
        wait_until(lambda: api.open_connections() > 0)
        wait_until(lambda: api.open_connections() == 0)
