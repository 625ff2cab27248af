"""Signing in at the issuer with a browser: the authorization code flow with PKCE (RFC 6749, 7636).

The code is exchanged by this server, so that no script of a page ever holds a token, and pages call no other host. What
must be remembered until the browser comes back is in a cookie of that browser: any API process can finish a sign-in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import orjson

from rmhdag.api.oidc import (
    MOST_BYTES,
    OidcSettings,
    TokenHolder,
    TokenRefused,
    TokenVerifier,
    is_safe_url,
    read_object,
)
from rmhdag.api.sign_in_tickets import SignInFailed, Ticket


class Endpoints(NamedTuple):
    authorization: str
    token: str


class OidcSignIn:
    """One per process; called from many threads."""

    def __init__(self, settings: OidcSettings, tokens: TokenVerifier) -> None:
        self._settings = settings
        self._tokens = tokens
        self._endpoints: tuple[float, Endpoints] | None = None

    @property
    def label(self) -> str:
        return self._settings.sign_in_label

    @property
    def session_days(self) -> float:
        return self._settings.session_hours / 24

    def begin(self, redirect_uri: str, back: str) -> tuple[str, Ticket]:
        """Where to send the browser, and what it must bring back."""
        ticket = Ticket(secrets.token_urlsafe(32), secrets.token_urlsafe(48), back)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(ticket.verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.sign_in_scopes,
            "state": ticket.state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = self._find_endpoints().authorization
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", ticket

    def finish(self, ticket: Ticket, state: str, code: str, redirect_uri: str) -> TokenHolder:
        """Who has signed in. Raises SignInFailed."""
        if not hmac.compare_digest(ticket.state.encode(), state.encode()):
            raise SignInFailed("the state is another sign-in's")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._settings.client_id or "",
            "code_verifier": ticket.verifier,
        }
        if self._settings.client_secret:
            form["client_secret"] = self._settings.client_secret
        try:
            return self._tokens.verify(self._exchange(form))
        except TokenRefused as error:
            raise SignInFailed(f"the access token is refused: {error}") from None

    def _exchange(self, form: dict[str, str]) -> str:
        try:
            with httpx.Client(timeout=self._settings.timeout_seconds, follow_redirects=False) as client:
                answer = client.post(self._find_endpoints().token, data=form, headers={"Accept": "application/json"})
            if answer.status_code != httpx.codes.OK or len(answer.content) > MOST_BYTES:
                raise SignInFailed(f"the token endpoint answers {answer.status_code}")
            facts: Any = orjson.loads(answer.content)
        except (httpx.HTTPError, ValueError) as error:
            raise SignInFailed(f"the token endpoint does not answer: {type(error).__name__}") from None
        token = facts.get("access_token") if isinstance(facts, dict) else None
        if not isinstance(token, str):
            raise SignInFailed("the token endpoint gives no access token")
        return token

    def _find_endpoints(self) -> Endpoints:
        """From the issuer's configuration, read once an hour."""
        cached = self._endpoints
        if cached is not None and time.monotonic() - cached[0] < self._settings.keys_seconds:
            return cached[1]
        place = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
        try:
            with httpx.Client(timeout=self._settings.timeout_seconds, follow_redirects=False) as client:
                document = read_object(client, place, self._settings.timeout_seconds)
        except (httpx.HTTPError, ValueError) as error:
            raise SignInFailed(f"the issuer does not answer: {type(error).__name__}") from None
        addresses = [document.get("authorization_endpoint"), document.get("token_endpoint")]
        if document.get("issuer") != self._settings.issuer or not all(
            isinstance(address, str) and is_safe_url(address) for address in addresses
        ):
            raise SignInFailed("the issuer's configuration names no safe endpoints")
        endpoints = Endpoints(str(addresses[0]), str(addresses[1]))
        self._endpoints = (time.monotonic(), endpoints)
        return endpoints
