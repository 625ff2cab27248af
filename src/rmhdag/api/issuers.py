"""The OIDC issuers of an API process. This and what it imports are loaded only where one is configured: the libraries
take a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmhdag.api.oidc import OidcSettings, TokenVerifier
from rmhdag.api.oidc_sign_in import OidcSignIn
from rmhdag.api.partner_tokens import PartnerTokens


class Issuers(NamedTuple):
    """What checks the tokens of callers, how browsers sign in, and what reads the tokens of partners."""

    tokens: TokenVerifier | None
    sign_in: OidcSignIn | None
    partner_tokens: PartnerTokens | None


def open_issuers(settings: OidcSettings | None, partners: Iterable[OidcSettings]) -> Issuers:
    tokens = None if settings is None else TokenVerifier(settings)
    has_client = settings is not None and settings.client_id is not None
    sign_in = OidcSignIn(settings, tokens) if settings is not None and tokens is not None and has_client else None
    partners = tuple(partners)
    return Issuers(tokens, sign_in, PartnerTokens(partners) if partners else None)
