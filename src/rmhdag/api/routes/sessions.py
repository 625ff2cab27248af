"""Sessions of browsers: opened with an API key, ended by signing out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from rmhdag.api.browser_sessions import forget_cookie, set_cookie
from rmhdag.api.context import ApiContext
from rmhdag.api.identity import (
    CHALLENGE,
    Holder,
    is_same_origin,
    note_refusal,
    refuse_unknown_host,
)
from rmhdag.api.problems import Problem
from rmhdag.models.api.sessions import OidcWay, SessionAnswer, SignInRequest, SignInWays
from rmhdag.store import api_keys

router = APIRouter(prefix="/api/v1/session", tags=["sessions"])


@router.get("/ways")
async def sign_in_ways(api: ApiContext) -> SignInWays:
    """How a browser can sign in. Needs no key."""
    return SignInWays(oidc=None if api.sign_in is None else OidcWay(label=api.sign_in.label))


@router.post("/key")
def open_session(body: SignInRequest, request: Request, response: Response, api: ApiContext) -> SessionAnswer:
    """Open a session for a browser, by an API key. It ends after twelve hours, or with the key. Needs no other key."""
    try:
        refuse_unknown_host(request, api.settings.hosts)
        if not is_same_origin(request):
            raise Problem(403, "cross_site", "only pages of this server open sessions")
        with api.connection() as conn:
            session = api_keys.open_session_with_key(conn, body.key)
    except api_keys.KeyRefused as error:
        problem = Problem(401, "key_refused", str(error), headers=CHALLENGE)
        note_refusal(problem, request)
        raise problem from None
    set_cookie(request, response, session)
    return SessionAnswer(signed_in=True)


@router.delete("")
def close_session(request: Request, response: Response, api: ApiContext, caller: Holder) -> SessionAnswer:
    """End the session of this browser. A caller with a key has none, and its key stays."""
    if caller.is_temporary and caller.key_id is not None:
        with api.connection() as conn:
            api_keys.end_session(conn, caller.key_id, caller.name)
    forget_cookie(request, response)
    return SessionAnswer(signed_in=False)
