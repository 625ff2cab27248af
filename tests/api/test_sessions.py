"""A browser's session for an API key: it can no more than the key, and ends with it."""

from __future__ import annotations

import httpx
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema
from tests.api.serving import Served
from tests.api.test_foundation import problem


def sign_in(api: Served, key: str) -> httpx.Client:
    browser = api.anonymous()
    answer = browser.post("/api/v1/session/key", json={"key": key}, headers={"Origin": api.url})
    assert answer.json() == {"signed_in": True}
    words = answer.headers["set-cookie"].lower()
    assert "httponly" in words
    assert "samesite=strict" in words
    assert key not in words
    return browser


def test_a_session_can_what_its_key_can(api: Served) -> None:
    browser = sign_in(api, api.key(Scope.READ, Scope.SUBMIT, name="ada"))
    me = browser.get("/api/v1/me").json()
    assert (me["name"], me["scopes"]) == ("ada", ["read", "submit"])
    problem(browser.post("/api/v1/keys", json={}, headers={"Origin": api.url}), 403, "scope_missing")


def test_a_session_ends_with_its_key(api: Served) -> None:
    key = api.key(Scope.READ)
    browser = sign_in(api, key)
    with connect(api.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        api_keys.revoke_key(conn, "default", str(api_keys.key_id_in(key)), revoked_by="test")
    problem(browser.get("/api/v1/me"), 401, "key_refused")


def test_signing_out_ends_the_session_and_not_the_key(api: Served) -> None:
    key = api.key(Scope.READ)
    browser = sign_in(api, key)
    cookie = dict(browser.cookies)
    assert browser.delete("/api/v1/session", headers={"Origin": api.url}).json() == {"signed_in": False}
    assert not browser.cookies
    problem(api.anonymous(cookies=cookie).get("/api/v1/me"), 401, "key_refused")
    assert api.anonymous(headers={"X-API-Key": key}).get("/api/v1/me").status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_another_site_opens_no_session(api: Served, headers: dict[str, str]) -> None:
    body = {"key": api.key(Scope.READ)}
    problem(api.anonymous().post("/api/v1/session/key", json=body, headers=headers), 403, "cross_site")


def test_what_is_no_key_of_a_person_opens_nothing(api: Served) -> None:
    with connect(api.dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        link = api_keys.create_login(conn, "ada", [Scope.READ], created_by="test", namespace="default")
    for key in ("x", "rmhdag_0123456789abcdef_" + "a" * 43, link, api.key(Scope.WORKER)):
        answer = api.anonymous().post("/api/v1/session/key", json={"key": key}, headers={"Origin": api.url})
        problem(answer, 401, "key_refused")
        assert "set-cookie" not in answer.headers
