"""A browser's way in: the link works once and only here, its session is a cookie, and other sites cannot use it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema
from tests.api.serving import Served
from tests.api.test_foundation import problem

SCOPES = (Scope.READ, Scope.ADMIN)
NEW_KEY = {"name": "ada", "scopes": ["read"]}


@pytest.fixture
def conn(api: Served) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with connect(api.dsn, "test", autocommit=True) as opened:
        enter_schema(opened, "dagapp")
        yield opened


@pytest.fixture
def token(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    return api_keys.create_login(conn, "ada", SCOPES, created_by="up-test", namespace="default")


@pytest.fixture
def browser(api: Served, token: str) -> httpx.Client:
    client = api.anonymous()
    answer = client.get("/login", params={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui")
    return client


def test_the_link_opens_a_session(browser: httpx.Client) -> None:
    assert browser.get("/api/v1/me").json()["name"] == "ada"
    assert browser.get("/").headers["location"] == "/ui"
    assert browser.get("/api/v1/openapi.json").json()["openapi"].startswith("3.")


def test_a_person_with_an_old_link_sees_the_page_that_says_so(api: Served) -> None:
    answer = api.anonymous().get("/login", params={"token": "x"}, headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui?refused=link_refused")
    assert "set-cookie" not in answer.headers


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(api: Served, token: str) -> None:
    cookie = api.anonymous().get("/login", params={"token": token}).headers["set-cookie"]
    words = [word.strip().lower() for word in cookie.split(";")]
    assert words[0].startswith(f"rmhdag_session_{httpx.URL(api.url).port}=")
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= set(words)


def test_the_link_works_once(api: Served, token: str) -> None:
    answers: list[int] = []

    def use() -> None:
        answers.append(api.anonymous().get("/login", params={"token": token}).status_code)

    threads = [threading.Thread(target=use) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [303, 401, 401, 401, 401]


def test_an_old_link_is_not_valid(api: Served, token: str, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    conn.execute("UPDATE dag_api_keys SET expires_at = clock_timestamp() WHERE kind = 'login'")
    problem(api.anonymous().get("/login", params={"token": token}), 401, "link_refused")


@pytest.mark.parametrize("given", ["", "x", "rmhdag_0123456789abcdef_" + "a" * 43])
def test_a_wrong_link_is_not_valid(api: Served, given: str) -> None:
    answer = api.anonymous().get("/login", params={"token": given})
    problem(answer, 401, "link_refused")
    assert "set-cookie" not in answer.headers


def test_a_link_works_by_a_name_of_this_machine_only(api: Served, token: str) -> None:
    answer = api.anonymous().get("/login", params={"token": token}, headers={"Host": "rebound.example"})
    problem(answer, 401, "link_refused")
    far = {"X-Forwarded-For": "203.0.113.9"}
    problem(api.anonymous().get("/login", params={"token": token}, headers=far), 401, "link_refused")
    assert api.anonymous().get("/login", params={"token": token}).status_code == 303


def test_no_kind_of_key_opens_what_another_is_for(api: Served, token: str, browser: httpx.Client) -> None:
    session = next(iter(browser.cookies.values()))
    name = next(iter(browser.cookies))
    key = api.key(Scope.READ)
    for wrong in (token, session):
        problem(api.anonymous(headers={"Authorization": f"Bearer {wrong}"}).get("/api/v1/me"), 401, "key_refused")
    for wrong in (token, key):
        problem(api.anonymous(headers={"Cookie": f"{name}={wrong}"}).get("/api/v1/me"), 401, "key_refused")
        problem(api.anonymous().get("/login", params={"token": session}), 401, "link_refused")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
def test_another_site_cannot_act_in_the_name_of_a_browser(browser: httpx.Client, headers: dict[str, str]) -> None:
    problem(browser.post("/api/v1/keys", json=NEW_KEY, headers=headers), 403, "cross_site")


def test_our_own_page_can(api: Served, browser: httpx.Client) -> None:
    for headers in ({"Origin": api.url}, {"Sec-Fetch-Site": "same-origin"}):
        assert browser.post("/api/v1/keys", json=NEW_KEY, headers=headers).status_code == 201


def test_a_session_ends_with_its_maker(browser: httpx.Client, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    api_keys.end_logins(conn, "default", "up-other")
    assert browser.get("/api/v1/me").status_code == 200
    api_keys.end_logins(conn, "default", "up-test")
    problem(browser.get("/api/v1/me"), 401, "key_refused")


def test_refusals_are_counted(api: Served) -> None:
    api.anonymous().get("/api/v1/me")
    api.anonymous(headers={"X-API-Key": "x"}).get("/api/v1/me")
    api.client(Scope.SUBMIT).get("/api/v1/me")
    told = api.client(Scope.READ, Scope.PLATFORM).get("/metrics").text
    for code in ("no_key", "key_refused", "scope_missing"):
        assert f'rmhdag_api_refusals_total{{code="{code}"}} 1.0' in told


def test_every_answer_carries_its_headers(api: Served) -> None:
    answers = [
        api.anonymous().get("/livez"),
        api.anonymous().get("/api/v1/me"),
        api.client(Scope.READ).get("/api/v1/me"),
        api.client(Scope.READ).get("/api/v1/nothing"),
        api.anonymous().post("/livez", content=b"x", headers={"Content-Encoding": "gzip"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 401, 200, 404, 415]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert "server" not in answer.headers
