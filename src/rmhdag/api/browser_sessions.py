"""The cookie that holds a browser's session."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from rmhdag.api.identity import session_cookie
from rmhdag.store import api_keys

SESSION_SECONDS = round(api_keys.SESSION_DAYS * 24 * 3600)


def set_cookie(request: Request, response: Response, session: str) -> None:
    response.set_cookie(
        session_cookie(request),
        session,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def forget_cookie(request: Request, response: Response) -> None:
    response.delete_cookie(
        session_cookie(request), httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
