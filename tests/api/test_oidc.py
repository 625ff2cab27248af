"""Tokens of an issuer: real ones with real signatures are taken for what their roles are worth, all others refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from rmhdag.api.oidc import IssuerUnavailable, OidcSettings, TokenRefused, TokenVerifier
from rmhdag.models.scopes import Scope
from tests.api.issuing import AUDIENCE, Issuer
from tests.api.serving import served
from tests.api.test_foundation import problem


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


def settings_for(issuer: Issuer, **given: Any) -> OidcSettings:
    roles = {"Reader": frozenset({Scope.READ}), "Sender": frozenset({Scope.SUBMIT, Scope.READ})}
    plain = OidcSettings(issuer=issuer.url, audience=AUDIENCE, role_scopes=roles, retry_seconds=0)
    return replace(plain, **given)


@pytest.fixture
def verifier(issuer: Issuer) -> TokenVerifier:
    return TokenVerifier(settings_for(issuer))


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_token_is_worth_what_its_roles_are(verifier: TokenVerifier, issuer: Issuer) -> None:
    assert verifier.verify(issuer.token())[:3] == ("ada", "default", frozenset({Scope.READ}))
    both = issuer.token(roles=["Sender", "Unknown", 7])
    assert verifier.verify(both).scopes == {Scope.READ, Scope.SUBMIT}
    assert verifier.verify(issuer.token(roles=None)).scopes == frozenset()
    assert verifier.verify(issuer.token(roles="Reader Other")).scopes == {Scope.READ}
    assert verifier.verify(issuer.token(roles={"Reader": True})).scopes == frozenset()


def test_keys_of_other_kinds(verifier: TokenVerifier, issuer: Issuer) -> None:
    issuer.add_ec("curve")
    assert verifier.verify(issuer.token("curve", "ES256")).name == "ada"


def test_claims_may_lie_deeper_and_name_a_namespace(issuer: Issuer) -> None:
    given = settings_for(
        issuer, role_claim="realm_access.roles", namespace_claim="https://x.example/org", name_claim="oid"
    )
    verifier = TokenVerifier(given)
    claims: dict[str, Any] = {"realm_access": {"roles": ["Reader"]}, "https://x.example/org": "north", "oid": "o" * 100}
    holder = verifier.verify(issuer.token(**claims))
    assert (holder.namespace, holder.scopes, len(holder.name)) == ("north", frozenset({Scope.READ}), 64)
    assert holder.name != verifier.verify(issuer.token(**{**claims, "oid": "o" * 101})).name
    for bad in (None, "", "../x", "a b", 7, ["north"]):
        with pytest.raises(TokenRefused, match="namespace"):
            verifier.verify(issuer.token(**{**claims, "https://x.example/org": bad}))


PAST, FUTURE = 1_000_000_000, 4_000_000_000


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://other.example"},
        {"iss": None},
        {"iss": ["x"]},
        {"aud": "api://other"},
        {"aud": None},
        {"aud": ["api://other"]},
        {"exp": PAST},
        {"exp": None},
        {"exp": "soon"},
        {"exp": [1]},
        {"exp": float("inf")},
        {"nbf": FUTURE},
        {"iat": FUTURE},
        {"nbf": "later"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\nb"},
    ],
)
def test_a_token_that_says_the_wrong_thing(verifier: TokenVerifier, issuer: Issuer, changed: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        verifier.verify(issuer.token(**changed))


def test_clocks_may_differ_a_little(verifier: TokenVerifier, issuer: Issuer) -> None:
    now = int(time.time())
    assert verifier.verify(issuer.token(exp=now - 10, iat=now - 100, nbf=now - 100)).name == "ada"
    assert verifier.verify(issuer.token(nbf=now + 20, iat=now + 20)).name == "ada"


def test_an_unsigned_token(verifier: TokenVerifier, issuer: Issuer) -> None:
    for algorithm in ("none", "None", "NONE", ""):
        header = {"alg": algorithm, "typ": "JWT", "kid": "first"}
        for signature in ("", "AAAA"):
            with pytest.raises(TokenRefused):
                verifier.verify(f"{encoded(header)}.{encoded(issuer.claims())}.{signature}")


def test_a_public_key_is_no_secret(verifier: TokenVerifier, issuer: Issuer) -> None:
    """Signed by HS256 with what everybody can read: the classic confusion."""
    shown = issuer.private["first"].public_key()
    pem = shown.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    text = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{encoded(issuer.claims())}"
    for secret in (pem, json.dumps(issuer.public("first")).encode()):
        digest = hmac.new(secret, text.encode(), hashlib.sha256).digest()
        with pytest.raises(TokenRefused):
            verifier.verify(f"{text}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}")


def test_a_secret_shown_by_the_issuer_is_not_used(issuer: Issuer) -> None:
    with pytest.raises(ValueError, match="algorithms are some of"):
        settings_for(issuer, algorithms=("HS256",))
    issuer.answers["/keys"] = {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}
    with pytest.raises(IssuerUnavailable):
        TokenVerifier(settings_for(issuer)).verify(issuer.token())


@pytest.mark.parametrize("key_id", ["../../first", "first' OR '1'='1", "/dev/null", "http://127.0.0.1/x", "", "\x00"])
def test_the_name_of_a_key_is_only_looked_up(verifier: TokenVerifier, issuer: Issuer, key_id: str) -> None:
    verifier.verify(issuer.token())
    token = jwt.encode(issuer.claims(), issuer.private["first"], "RS256", {"kid": key_id})
    with pytest.raises(TokenRefused):
        verifier.verify(token)
    assert set(issuer.asked) == {"/.well-known/openid-configuration", "/keys"}


def test_a_key_that_the_token_brings_is_not_used(verifier: TokenVerifier, issuer: Issuer) -> None:
    own = Issuer()
    try:
        for header in ({"jwk": own.public("first")}, {"jku": f"{own.url}/keys"}, {"crit": ["exp"]}):
            token = jwt.encode(issuer.claims(), own.private["first"], "RS256", {"kid": "first", **header})
            with pytest.raises(TokenRefused):
                verifier.verify(token)
        assert own.asked == {}
    finally:
        own.close()


def test_a_changed_token(verifier: TokenVerifier, issuer: Issuer) -> None:
    header, _, signature = issuer.token().split(".")
    with pytest.raises(TokenRefused):
        verifier.verify(f"{header}.{encoded(issuer.claims(roles=['Sender']))}.{signature}")


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b.c", "ключ", "x" * 20_000, "eyJhbGciOiJSUzI1NiJ9.e30.", "\ud800.a.b"]
)
def test_what_is_no_token(verifier: TokenVerifier, text: str) -> None:
    with pytest.raises(TokenRefused):
        verifier.verify(text)


def test_a_new_key_is_fetched_when_a_token_names_it(verifier: TokenVerifier, issuer: Issuer) -> None:
    old = issuer.token()
    verifier.verify(old)
    issuer.private.clear()
    issuer.add_rsa("second")
    assert verifier.verify(issuer.token("second")).name == "ada"
    with pytest.raises(TokenRefused, match="does not show"):
        verifier.verify(old)


def test_unknown_keys_do_not_make_us_ask_often(issuer: Issuer) -> None:
    verifier = TokenVerifier(settings_for(issuer, retry_seconds=3600))
    verifier.verify(issuer.token())
    for number in range(20):
        token = jwt.encode(issuer.claims(), issuer.private["first"], "RS256", {"kid": f"k{number}"})
        with pytest.raises(TokenRefused, match="does not show"):
            verifier.verify(token)
    assert issuer.asked["/keys"] == 1


def test_the_last_good_keys_stay_while_the_issuer_is_away(issuer: Issuer) -> None:
    verifier = TokenVerifier(settings_for(issuer, keys_seconds=0))
    token = issuer.token()
    verifier.verify(token)
    issuer.answers.clear()
    assert verifier.verify(token).name == "ada"
    issuer.close()
    assert verifier.verify(token).name == "ada"
    assert issuer.asked["/keys"] > 1 or issuer.asked["/.well-known/openid-configuration"] > 1


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/keys": [], "/.well-known/openid-configuration": []},
        {"/.well-known/openid-configuration": {"issuer": "https://other.example", "jwks_uri": "URL/keys"}},
        {"/.well-known/openid-configuration": {"issuer": "URL", "jwks_uri": "http://198.51.100.1/keys"}},
        {"/.well-known/openid-configuration": {"issuer": "URL", "jwks_uri": "ftp://127.0.0.1/keys"}},
        {"/.well-known/openid-configuration": {"issuer": "URL", "jwks_uri": "URL/keys"}, "/keys": {"keys": "none"}},
    ],
)
def test_an_issuer_that_makes_no_sense(issuer: Issuer, answers: dict[str, Any]) -> None:
    issuer.answers = json.loads(json.dumps(answers).replace("URL", issuer.url))
    with pytest.raises(IssuerUnavailable):
        TokenVerifier(settings_for(issuer)).verify(issuer.token())


def test_a_short_key_proves_nothing(verifier: TokenVerifier, issuer: Issuer) -> None:
    issuer.private.clear()
    issuer.add_rsa("short", bits=1024)
    with pytest.warns(match="below the minimum"):
        token = issuer.token("short")
    with pytest.raises(TokenRefused):
        verifier.verify(token)


def test_over_http(issuer: Issuer, migrated_database: str) -> None:
    with served(migrated_database, oidc=settings_for(issuer, namespace="north", retry_seconds=1)) as api:

        def call(token: str) -> Any:
            return api.anonymous(headers={"Authorization": f"Bearer {token}"}).get("/api/v1/me")

        told = call(issuer.token()).json()
        assert (told["name"], told["namespace"], told["scopes"], told["key_id"]) == ("ada", "north", ["read"], None)
        problem(call(issuer.token(roles=[])), 403, "scope_missing")
        problem(call(issuer.token(exp=PAST)), 401, "token_refused")
        problem(call("garbage"), 401, "token_refused")
        assert call(api.key(Scope.READ)).status_code == 200
    with served(migrated_database, oidc=settings_for(issuer, retry_seconds=60)) as api:
        issuer.answers.clear()
        answer = call(issuer.token())
        problem(answer, 503, "issuer_unavailable")
        assert answer.headers["retry-after"] == "60"
        assert call(api.key(Scope.READ)).status_code == 200
