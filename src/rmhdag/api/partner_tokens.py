"""Tokens that partners send to a gateway, read for it: the gateway itself loads nothing that checks signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jwt

from rmhdag.api.identity import issuer_unavailable, token_refused
from rmhdag.api.oidc import MOST_CHARACTERS, IssuerUnavailable, OidcSettings, TokenRefused, TokenVerifier
from rmhdag.models.api.clients import TokenIdentity

# Where issuers name the application that asked for a token: OpenID Connect and Entra 2.0, Entra 1.0, RFC 9068, Okta.
APPLICATION_CLAIMS = ("azp", "appid", "client_id", "cid")
# Only tokens of people have them: such a token is not its application's, which acts for anybody who signs in there.
PERSONAL_CLAIMS = frozenset("sid session_state auth_time acr amr upn unique_name nonce".split())


class PartnerTokens:
    """One verifier per issuer; called from many threads."""

    def __init__(self, issuers: Iterable[OidcSettings]) -> None:
        self._verifiers = {settings.issuer: TokenVerifier(settings) for settings in issuers}

    def read(self, text: str) -> TokenIdentity:
        """Raises a 422 for what proves nothing, because the gateway that asks is authenticated; and a 503."""
        try:
            return self._read(text)
        except TokenRefused as error:
            raise token_refused(str(error)) from None
        except IssuerUnavailable as error:
            raise issuer_unavailable(error.retry_seconds) from None

    def _read(self, text: str) -> TokenIdentity:
        verifier = self._verifiers.get(issuer_in(text))
        if verifier is None:
            raise TokenRefused("the token is not from an issuer whose tokens are accepted here")
        claims = verifier.read(text)
        subject = claims.get("sub")
        return TokenIdentity(
            issuer=claims["iss"],
            application=application_of(claims),
            subject=subject if isinstance(subject, str) and subject else None,
            expires_at=float(claims["exp"]),
        )


def issuer_in(text: str) -> str:
    """What the token says, before anything of it is believed."""
    if len(text) > MOST_CHARACTERS:
        raise TokenRefused("the token is too long")
    try:
        claims = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        raise TokenRefused("this is neither a key nor a token") from None
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def application_of(claims: Mapping[str, Any]) -> str | None:
    """The application that got the token for itself, by its own credentials. None if it got it for a person."""
    names = (claims.get(name) for name in APPLICATION_CLAIMS)
    application = next((name for name in names if isinstance(name, str) and name), None)
    if application is None or claims.get("idtyp", "app") != "app" or not PERSONAL_CLAIMS.isdisjoint(claims):
        return None
    # Entra writes delegated permissions into `scp`, and only there; elsewhere an application's subject is itself.
    if "scp" in claims and claims.get("sub") != application:
        return None
    return application
