"""Pages of other sites: those whose origin is configured may call with a key; browsers keep all others away.

A key is sent by the page itself. Cookies are never shared with another site, so `Allow-Credentials` is never said.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = "GET, POST, PUT, DELETE"
REQUEST_HEADERS = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-API-Key"
ANSWER_HEADERS = "ETag, Location, Retry-After"
REMEMBERED_SECONDS = 600


class CrossOrigin:
    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        origin = headers.get("origin")
        if origin is None or origin not in self._origins:
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await Response(status_code=204, headers=preflight(origin))(scope, receive, send)
        else:

            async def allowed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    answer = MutableHeaders(scope=message)
                    answer["Access-Control-Allow-Origin"] = origin
                    answer["Access-Control-Expose-Headers"] = ANSWER_HEADERS
                    answer.add_vary_header("Origin")
                await send(message)

            await self._app(scope, receive, allowed)


def preflight(origin: str) -> dict[str, str]:
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": REQUEST_HEADERS,
        "Access-Control-Max-Age": str(REMEMBERED_SECONDS),
        "Vary": "Origin",
    }
