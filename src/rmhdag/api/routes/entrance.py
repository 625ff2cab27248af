"""The way in for a browser on this machine: a link that works once, a session, and a page to begin from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import rmhdag
from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader, is_loopback, note_refusal, session_cookie
from rmhdag.api.problems import Problem
from rmhdag.store import api_keys

router = APIRouter(include_in_schema=False)

SESSION_SECONDS = round(api_keys.SESSION_DAYS * 24 * 3600)
PAGE = f"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>rmhdag</title></head>
<body>
<h1>rmhdag {rmhdag.__version__}</h1>
<p>Workflows for geospatial data, with PostgreSQL as the only truth.</p>
<ul>
<li><a href="/health">Health</a></li>
<li><a href="/api/v1/openapi.json">The API, as an OpenAPI document</a></li>
<li><a href="/api/v1/me">Who you are here</a></li>
</ul>
</body>
</html>
"""


@router.get("/login")
def login(request: Request, api: ApiContext, token: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Let a browser in by the link that `rmhdag up` has printed; it works once."""
    try:
        if not is_near(request):
            raise api_keys.KeyRefused("the link is not valid")
        with api.connection() as conn:
            session = api_keys.open_session(conn, token)
    except api_keys.KeyRefused as error:
        remedy = "A link works once, within ten minutes, and on the machine itself; `rmhdag up` prints a new one."
        problem = Problem(401, "link_refused", str(error), remedy=remedy)
        note_refusal(problem, request)
        raise problem from None
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        session_cookie(request),
        session,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


def is_near(request: Request) -> bool:
    """From this machine, by a name of this machine, and not through a proxy: neither a page elsewhere whose name was
    pointed here nor whoever stands behind a proxy is near.
    """
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    return is_loopback(request.client.host if request.client else "") and is_loopback(request.url.hostname or "")


@router.get("/")
async def landing(caller: Reader) -> HTMLResponse:
    """Where to go from here."""
    return HTMLResponse(PAGE)
