"""For gateways: whose a token is, and what was used there. The keys of partners open nothing here."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import GatewayCaller, token_refused
from rmhdag.models.api.clients import TokenIdentity, TokenText, Uses, UsesNoted
from rmhdag.store import client_identities

router = APIRouter(prefix="/api/v1/gateway", tags=["keys"])


@router.post("/token")
def read_token(caller: GatewayCaller, api: ApiContext, body: TokenText) -> TokenIdentity:
    """Whose this token is; 422 if it proves nothing."""
    if api.partner_tokens is None:
        raise token_refused("tokens are not accepted here")
    return api.partner_tokens.read(body.token)


@router.post("/uses")
def note_uses(caller: GatewayCaller, api: ApiContext, body: Uses) -> UsesNoted:
    """When keys and identities were last used: the gateway cannot write it."""
    with api.connection() as conn:
        return UsesNoted(noted=client_identities.note_uses(conn, body))
