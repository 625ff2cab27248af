"""The gateway as an ASGI application: the same under uvicorn and as an Azure Function.

Under a function's host no shutdown runs, no client address is known and every answer is buffered. So connections open
by themselves, addresses come from the proxy's header, and nothing is streamed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from email.utils import format_datetime
from ipaddress import ip_address
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from rmhdag.gateway import openapi
from rmhdag.gateway.calls import Call
from rmhdag.gateway.configuration import GatewayConfiguration
from rmhdag.gateway.database import Database
from rmhdag.gateway.files import Downloads
from rmhdag.gateway.forwarding import Forwarder
from rmhdag.gateway.key_uses import KeyUses
from rmhdag.gateway.keys import Keys
from rmhdag.gateway.problems import RETRY_SECONDS, Problem
from rmhdag.gateway.public_pages import CHANGES_PATH, STATUS_PATH, changes_page, status_page
from rmhdag.gateway.rate_limits import RateLimits
from rmhdag.gateway.readiness import Readiness
from rmhdag.gateway.reads import Reads
from rmhdag.gateway.routes import DEPRECATED_AT, Match, Routes
from rmhdag.gateway.tokens import Tokens

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
REQUEST_ID_HEADER = "X-Request-Id"
PLAIN_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

# Of refusals by a rate, and how many of them may wait at a time.
DELAY_SECONDS = 0.2
MOST_DELAYED = 500

log = logging.getLogger(__name__)


class Gateway:
    def __init__(
        self,
        settings: GatewayConfiguration,
        *,
        schema_name: str = "dagapp",
        pooled: bool = False,
        retention_days: float = 30.0,
    ) -> None:
        self.settings = settings
        # After this time the platform forgets an order that makes no asset.
        self.retention_days = retention_days
        self.templates: Mapping[str, Mapping[str, str]] = settings.service_templates()
        self._database = Database(settings.gateway_database_url or "", schema_name, pooled=pooled)
        self._limits = RateLimits()
        self._routes = Routes()
        self._delayed = 0
        self.reads = Reads(self._database, with_outputs=bool(self.templates))
        self.forwarder = Forwarder(
            settings.orchestrator_url or "",
            "" if settings.gateway_key is None else settings.gateway_key.get_secret_value(),
            seconds=settings.gateway_forward_seconds,
        )
        tokens = Tokens(self.forwarder.read_token)
        self._keys = Keys(self._database, settings.client_quota_defaults(), self._limits, tokens)
        self._uses = KeyUses(self.forwarder.note_uses)
        self.downloads = Downloads()
        self.readiness = Readiness(
            settings.missing_variables(),
            None if settings.gateway_database_url is None else self.reads,
            None if settings.gateway_key is None or settings.orchestrator_url is None else self.forwarder,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003, "reason": ""})

    async def close(self) -> None:
        await self._uses.close()
        await self._database.close()
        await self.forwarder.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers: dict[str, str] = {}
        try:
            response = await self._respond(request, headers)
        except Problem as problem:
            await self._slow_down(problem)
            response = problem.response()
        except Exception as error:
            # The last line: nothing of an exception leaves the gateway, whatever serves it.
            log.error("unexpected_error: %s %s", request.method, scope["path"], exc_info=error)
            detail = "something went wrong on our side; it has been logged"
            response = Problem(500, "unexpected_error", detail).response()
        for name, value in {**HEADERS, **headers, REQUEST_ID_HEADER: _request_id(request)}.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _slow_down(self, problem: Problem) -> None:
        """A client that ignores a 429 gets its answers late, so that it does not take the processor from others."""
        if problem.status != 429:
            return
        if self._delayed >= MOST_DELAYED:
            problem.headers["Connection"] = "close"
            return
        self._delayed += 1
        try:
            await asyncio.sleep(DELAY_SECONDS)
        finally:
            self._delayed -= 1

    async def _respond(self, request: Request, headers: dict[str, str]) -> Response:
        path = request.scope["path"]
        if path == "/livez":
            return _json({"alive": True})
        if path == "/readyz":
            return await self._ready()
        if path == STATUS_PATH:
            return await self._status_page(request.method)
        if not self.readiness.has_passed:
            checks = await self.readiness.check()
            if not self.readiness.has_passed:
                failed = {name: check for name, check in checks.items() if not check["passed"]}
                raise Problem(
                    503,
                    "starting",
                    "the gateway is not ready",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                    checks=failed,
                )
        if path in ("/openapi.json", "/docs", "/", CHANGES_PATH):
            return _describe(path, request.method)
        text = _presented(request)
        holder = await self._keys.holder_of(text, address_of(request, self.settings.gateway_trusted_proxies))
        self._uses.note(holder)
        headers |= self._limits.take(holder.namespace, holder.client_id, holder.quotas)
        match = self._routes.find(request.method, path)
        if not holder.may(*match.operation.scopes):
            needed = " or ".join(f"`{scope}`" for scope in match.operation.scopes)
            raise Problem(403, "scope_missing", f"this needs a key with the scope {needed}")
        headers |= _succession(match, self.settings.gateway_sunset)
        call = Call(self, request, holder, match.path, f"Bearer {text}")
        for value in match.path.values():
            if "\0" in value or len(value) > 512:
                raise Problem(404, "not_found", "there is nothing at this path")
        return await match.operation.handler(call)

    async def _status_page(self, method: str) -> Response:
        """Also while nothing else is served."""
        _refuse_changing(method)
        checks = await self.readiness.check()
        is_well = all(check["passed"] for check in checks.values())
        return HTMLResponse(status_page(checks), 200 if is_well else 503)

    async def _ready(self) -> Response:
        checks = await self.readiness.check()
        is_ready = all(check["passed"] for check in checks.values())
        response = _json({"ready": is_ready, "checks": checks}, 200 if is_ready else 503)
        if not is_ready:
            response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response


def address_of(request: Request, trusted_proxies: int) -> str:
    """Of the caller, as far as a proxy that we trust tells it: each adds to the end of the header.

    Under a function's host there is no peer; its front end is the one proxy, and writes `address:port`.
    """
    peer = request.client.host if request.client else None
    trusted = trusted_proxies if peer is not None else max(1, trusted_proxies)
    entries = [entry.strip() for entry in request.headers.get("x-forwarded-for", "").split(",") if entry.strip()]
    if trusted == 0 or len(entries) < trusted:
        return peer or "unknown"
    return _without_port(entries[-trusted])


def _without_port(entry: str) -> str:
    host = entry[1:].partition("]")[0] if entry.startswith("[") else entry
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return str(ip_address(host))
    except ValueError:
        return "unknown"


def _presented(request: Request) -> str | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():
        return text.strip()
    return request.headers.get("x-api-key")


def _request_id(request: Request) -> str:
    """The caller's, so that both sides can find it in their logs."""
    text = request.headers.get(REQUEST_ID_HEADER, "")
    return text if PLAIN_ID.fullmatch(text) else uuid.uuid4().hex


def _succession(match: Match, sunset: date) -> dict[str, str]:
    """RFC 9745 and 8594: an older name still works, and says since when it is old and from when it may be gone."""
    if match.successor is None:
        return {}
    path = match.successor
    for name, value in match.path.items():
        path = path.replace(f"{{{name}}}", value)
    link = f'<{path}>; rel="successor-version"' if path.isascii() and path.isprintable() else ""
    ends = format_datetime(datetime.combine(sunset, datetime.min.time(), UTC), usegmt=True)
    return {"Deprecation": f"@{DEPRECATED_AT}", "Sunset": ends, **({"Link": link} if link else {})}


def _describe(path: str, method: str) -> Response:
    _refuse_changing(method)
    if path == "/openapi.json":
        return _json(openapi.document())
    return HTMLResponse(changes_page() if path == CHANGES_PATH else openapi.page())


def _refuse_changing(method: str) -> None:
    if method not in ("GET", "HEAD"):
        raise Problem(405, "method_not_allowed", "this path has no such method", headers={"Allow": "GET, HEAD"})


def _json(body: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")
