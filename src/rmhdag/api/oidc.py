"""Tokens of an OIDC issuer, verified with its keys: their claims give the caller's name, namespace and scopes."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
import jwt
import orjson
from jwt.types import Options

from rmhdag.models.scopes import Scope
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut

# Asymmetric ones alone: with any other, everybody who can check a token can make one.
ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
MOST_CHARACTERS = 16 * 1024
MOST_KEYS = 100
MOST_BYTES = 1024 * 1024
NAME_CHARACTERS = 64
NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

log = get_logger(__name__)


class TokenRefused(Exception):
    """The token proves nothing."""


class IssuerUnavailable(Exception):
    """No key of the issuer is known, and it does not answer."""

    def __init__(self, retry_seconds: int) -> None:
        super().__init__("the issuer does not answer")
        self.retry_seconds = retry_seconds


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """`jwks_url` is found by discovery if it is not given. `role_scopes` says what each role is worth."""

    issuer: str
    audience: str
    role_scopes: Mapping[str, frozenset[Scope]]
    jwks_url: str | None = None
    role_claim: str = "roles"
    name_claim: str = "sub"
    namespace: str = "default"
    namespace_claim: str | None = None
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    # As in the header `typ`; `none` if it has none.
    token_types: tuple[str, ...] = ("at+jwt", "JWT")
    # For browsers that sign in here; without a client they cannot.
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    sign_in_scopes: str = "openid"
    sign_in_label: str = "Sign in with your organisation"
    session_hours: float = 8.0
    leeway_seconds: float = 30.0
    keys_seconds: float = 3600.0
    retry_seconds: float = 10.0
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not self.algorithms or not ALGORITHMS.issuperset(self.algorithms):
            raise ValueError(f"algorithms are some of {', '.join(sorted(ALGORITHMS))}")


class TokenHolder(NamedTuple):
    """`expires_at` is the token's own end, in seconds since 1970."""

    name: str
    namespace: str
    scopes: frozenset[Scope]
    expires_at: float


class TokenVerifier:
    """One per process; called from many threads."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._keys = IssuerKeys(settings)

    def verify(self, text: str) -> TokenHolder:
        return self._holder(self.read(text))

    def read(self, text: str) -> dict[str, Any]:
        """The claims of an access token that our issuer has made for our audience."""
        if len(text) > MOST_CHARACTERS:
            raise TokenRefused("the token is too long")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.InvalidTokenError, UnicodeError):
            raise TokenRefused("this is neither a key nor a token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._settings.algorithms or "crit" in header:
            raise TokenRefused("the token is signed in a way that is not allowed here")
        if not isinstance(key_id, str):
            raise TokenRefused("the token does not say by which key it is signed")
        kind = token_type(header)
        if kind not in {name.lower() for name in self._settings.token_types}:
            raise TokenRefused(f"tokens of the type {kind} are not allowed here; send an access token")
        claims = self._claims(text, algorithm, self._keys.find(key_id, algorithm))
        if is_id_token(kind, claims):
            raise TokenRefused("this is an ID token, which says who has signed in; send the access token")
        return claims

    def _claims(self, text: str, algorithm: str, key: Any) -> dict[str, Any]:
        settings = self._settings
        options: Options = {
            "require": ["exp", "iss", "aud"],
            "verify_signature": True,
            "enforce_minimum_key_length": True,
        }
        try:
            return jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway_seconds,
                options=options,
            )
        except jwt.ExpiredSignatureError:
            raise TokenRefused("the token has expired") from None
        except (jwt.ImmatureSignatureError, jwt.InvalidIssuedAtError):
            raise TokenRefused("the token is not valid yet") from None
        except (jwt.InvalidAudienceError, jwt.InvalidIssuerError, jwt.MissingRequiredClaimError):
            raise TokenRefused("the token is not meant for us, or not from our issuer") from None
        # A wrong claim may also make the library stumble over it: a list where a number should be.
        except (jwt.InvalidTokenError, jwt.PyJWTError, ValueError, TypeError, OverflowError):
            raise TokenRefused("the token is not valid") from None

    def _holder(self, claims: Mapping[str, Any]) -> TokenHolder:
        settings = self._settings
        name = find_claim(claims, settings.name_claim)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise TokenRefused(f"the token has no name in its claim {settings.name_claim}")
        namespace = settings.namespace
        if settings.namespace_claim is not None:
            claim = find_claim(claims, settings.namespace_claim)
            if not isinstance(claim, str) or not NAMESPACE.fullmatch(claim):
                raise TokenRefused(f"the token names no namespace in its claim {settings.namespace_claim}")
            namespace = claim
        roles = find_claim(claims, settings.role_claim)
        named = roles.split() if isinstance(roles, str) else roles if isinstance(roles, list) else []
        scopes = [
            settings.role_scopes[role] for role in named if isinstance(role, str) and role in settings.role_scopes
        ]
        return TokenHolder(shorten_name(name), namespace, frozenset().union(*scopes), float(claims["exp"]))


@dataclass
class IssuerKeys:
    """The issuer's public keys. They are asked for again when they are old or a token names one that is not among them,
    but never often; while the issuer is away the last good ones stay.
    """

    settings: OidcSettings
    # Replaced as a whole, so that readers need no lock: the keys as they came, and as they are used with an algorithm.
    _known: tuple[dict[str, dict[str, Any]], dict[tuple[str, str], Any]] = field(default_factory=lambda: ({}, {}))
    _fetched_at: float = float("-inf")
    _tried_at: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key_id: str, algorithm: str) -> Any:
        if key_id not in self._known[0] or time.monotonic() - self._fetched_at > self.settings.keys_seconds:
            self._refresh(key_id)
        keys, fetched_at = self._known
        if key_id not in keys:
            if not keys:
                raise IssuerUnavailable(max(1, round(self.settings.retry_seconds)))
            raise TokenRefused("the token is signed by a key that the issuer does not show")
        if (key_id, algorithm) not in fetched_at:
            fetched_at[(key_id, algorithm)] = make_key(algorithm, keys[key_id])
        return fetched_at[(key_id, algorithm)]

    def _refresh(self, key_id: str) -> None:
        """One thread asks. Those whose key is known do not wait for it."""
        if not self._lock.acquire(blocking=key_id not in self._known[0]):
            return
        try:
            now = time.monotonic()
            if now - self._tried_at < self.settings.retry_seconds:
                return
            self._tried_at = now
            self._known = (self._fetch(), {})
            self._fetched_at = now
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            log.warning(
                "issuer_unavailable",
                issuer=self.settings.issuer,
                error=type(error).__name__,
                why=mask_and_cut(str(error), 200),
            )
        finally:
            self._lock.release()

    def _fetch(self) -> dict[str, dict[str, Any]]:
        with httpx.Client(timeout=self.settings.timeout_seconds, follow_redirects=False) as client:
            url = self.settings.jwks_url or self._discover(client)
            document = read_object(client, url, self.settings.timeout_seconds)
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise ValueError("the issuer's document has no list of keys")
        by_id = {key["kid"]: key for key in keys[:MOST_KEYS] if is_public_key(key)}
        if not by_id:
            raise ValueError("the issuer shows no key that signs")
        return by_id

    def _discover(self, client: httpx.Client) -> str:
        place = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
        document = read_object(client, place, self.settings.timeout_seconds)
        if document.get("issuer") != self.settings.issuer:
            raise ValueError("the issuer's document is another issuer's")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or not is_safe_url(url):
            raise ValueError("the issuer's document names no safe place of its keys")
        return url


def token_type(header: Mapping[str, Any]) -> str:
    """RFC 9068 calls an access token `at+jwt`; many issuers say `JWT`."""
    kind = header.get("typ", "none")
    return kind.lower().removeprefix("application/")[:32] if isinstance(kind, str) else "unknown"


def is_id_token(kind: str, claims: Mapping[str, Any]) -> bool:
    """It is meant for a client, in whose logs and pages it may stand: it must open nothing here, whatever its audience.
    Some issuers put a nonce into access tokens too, and call those `Bearer`.
    """
    if kind == "at+jwt":
        return False
    named = claims.get("typ")
    has_nonce = "nonce" in claims and named != "Bearer"
    return named == "ID" or has_nonce or not {"at_hash", "c_hash"}.isdisjoint(claims)


def make_key(algorithm: str, fields: dict[str, Any]) -> Any:
    try:
        if fields.get("alg", algorithm) == algorithm:
            return jwt.get_algorithm_by_name(algorithm).from_jwk(fields)
    except (jwt.PyJWTError, ValueError, TypeError):
        pass
    raise TokenRefused("the token is signed in a way that is not its key's")


def read_object(client: httpx.Client, url: str, timeout_seconds: float) -> dict[str, Any]:
    """Bounded in bytes and in time, however slowly they come."""
    deadline = time.monotonic() + timeout_seconds
    body = b""
    with client.stream("GET", url, headers={"Accept": "application/json"}) as answer:
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"the issuer answers {answer.status_code}")
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > MOST_BYTES or time.monotonic() > deadline:
                raise ValueError("the issuer's answer is too large or too slow")
    document = orjson.loads(body)
    if not isinstance(document, dict):
        raise ValueError("the issuer's answer is not an object")
    return document


def is_public_key(key: Any) -> bool:
    """For signatures, and without a secret part: an issuer that shows one is not to be trusted with it."""
    return (
        isinstance(key, dict)
        and isinstance(key.get("kid"), str)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use", "sig") == "sig"
        and "d" not in key
    )


def is_safe_url(url: str) -> bool:
    """Keys that anybody on the way could replace are worth nothing; only this machine is near enough."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        return False
    near = parts.scheme == "http" and parts.host in ("127.0.0.1", "::1", "localhost")
    return bool(parts.host) and (parts.scheme == "https" or near)


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """By its whole name first, for names may be URLs; else as a path: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def shorten_name(name: str) -> str:
    """As long as our columns are; what is cut off still tells two apart."""
    if len(name) <= NAME_CHARACTERS:
        return name
    return f"{name[:47]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
