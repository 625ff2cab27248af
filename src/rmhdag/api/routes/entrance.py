"""The way in for a browser on this machine: a link that works once, and opens a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from rmhdag.api.browser_sessions import set_cookie
from rmhdag.api.context import ApiContext
from rmhdag.api.identity import is_loopback, note_refusal
from rmhdag.api.problems import Problem
from rmhdag.store import api_keys

router = APIRouter(include_in_schema=False)

HOME = "/ui"


@router.get("/login")
def login(request: Request, api: ApiContext, token: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Log a browser in by the link that `rmhdag up` prints; it works once."""
    try:
        if not is_near(request):
            raise api_keys.KeyRefused("the link is not valid")
        with api.connection() as conn:
            session = api_keys.open_session(conn, token)
    except api_keys.KeyRefused as error:
        remedy = "A link works once, within ten minutes, and on the machine itself; `rmhdag up` prints a new one."
        problem = Problem(401, "link_refused", str(error), remedy=remedy)
        note_refusal(problem, request)
        if "text/html" in request.headers.get("accept", ""):
            # A person sees the page, which says so; somebody who is signed in already just goes on.
            return RedirectResponse(f"{HOME}?refused=link_refused", status_code=303)
        raise problem from None
    answer = RedirectResponse(HOME, status_code=303)
    set_cookie(request, answer, session)
    return answer


def is_near(request: Request) -> bool:
    """From this machine, by a name of this machine, and not through a proxy: a foreign page
    whose name was pointed here is not local, and neither is a client behind a proxy.
    """
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    return is_loopback(request.client.host if request.client else "") and is_loopback(request.url.hostname or "")


@router.get("/")
async def landing() -> Response:
    """The web interface is where people begin."""
    return RedirectResponse(HOME, status_code=303)
