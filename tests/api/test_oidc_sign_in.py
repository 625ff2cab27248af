"""A browser that signs in at an issuer: a code, PKCE, and a session that no other site can steer."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from rmhdag.api.oidc import OidcSettings
from rmhdag.models.scopes import Scope
from tests.api.issuing import AUDIENCE, Issuer
from tests.api.serving import NO_TLS, ServedHere, served

REFUSED = "/ui?refused=sign_in_failed"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    opened = Issuer()
    yield opened
    opened.close()


def settings_of(issuer: Issuer) -> OidcSettings:
    roles = {"Reader": frozenset({Scope.READ})}
    return OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes=roles, client_id="web")


@pytest.fixture
def api(migrated_database: str, issuer: Issuer) -> Iterator[ServedHere]:
    with served(migrated_database, oidc=settings_of(issuer)) as running:
        yield running


def to_issuer(browser: httpx.Client, back: str = "/ui/jobs?q=x") -> str:
    """Where the issuer sends the browser that was sent there."""
    away = browser.get("/login/oidc", params={"back": back})
    assert away.status_code == 303
    return httpx.get(away.headers["location"], trust_env=False, verify=NO_TLS).headers["location"]


def test_a_browser_signs_in_and_comes_back_to_its_page(api: ServedHere) -> None:
    browser = api.anonymous()
    assert browser.get("/api/v1/session/ways").json()["oidc"] == {"label": "Sign in with your organisation"}
    done = browser.get(to_issuer(browser))
    assert (done.status_code, done.headers["location"]) == (303, "/ui/jobs?q=x")
    assert "samesite=strict" in done.headers["set-cookie"].lower()
    me = browser.get("/api/v1/me").json()
    assert (me["name"], me["scopes"]) == ("ada", ["read"])
    assert browser.delete("/api/v1/session", headers={"Origin": api.url}).json() == {"signed_in": False}
    assert browser.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/ui\\evil", "/api/v1/me", ""])
def test_nobody_is_sent_elsewhere(api: ServedHere, back: str) -> None:
    browser = api.anonymous()
    assert browser.get(to_issuer(browser, back)).headers["location"] == "/ui"


def test_a_code_of_another_browser_or_used_twice_opens_nothing(api: ServedHere) -> None:
    mine, other = api.anonymous(), api.anonymous()
    back = to_issuer(mine)
    for browser, address in ((other, back), (mine, back.replace("state=", "state=x"))):
        answer = browser.get(address)
        assert answer.headers["location"] == REFUSED
        assert browser.get("/api/v1/me").status_code == 401
    assert mine.get(back).headers["location"] == "/ui/jobs?q=x"
    assert mine.get(back).headers["location"] == REFUSED


def test_a_code_is_bound_to_the_verifier(api: ServedHere, issuer: Issuer) -> None:
    browser = api.anonymous()
    back = to_issuer(browser)
    code = parse_qs(urlsplit(back).query)["code"][0]
    issuer.codes[code]["code_challenge"] = "another"
    assert browser.get(back).headers["location"] == REFUSED


def test_who_has_no_role_and_an_issuer_that_is_away_are_refused(api: ServedHere, issuer: Issuer) -> None:
    browser = api.anonymous()
    back = to_issuer(browser)
    issuer.exchange = lambda form: {"access_token": issuer.token(roles=["Guest"])}  # type: ignore[method-assign]
    assert browser.get(back).headers["location"] == REFUSED
    back = to_issuer(browser)
    issuer.close()
    assert browser.get(back).headers["location"] == REFUSED


def test_without_a_client_it_is_not_offered(migrated_database: str) -> None:
    with served(migrated_database) as plain:
        assert plain.anonymous().get("/api/v1/session/ways").json() == {"key": True, "oidc": None}
        assert plain.anonymous().get("/login/oidc").status_code == 404
