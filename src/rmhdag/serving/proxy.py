"""One port for all services: a request that may pass goes to its service, and its answer comes back in pieces.

Only reading passes: GET and HEAD, and POST for STAC's search. A parameter `url` never passes, whatever a service would
make of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import anyio.to_thread
import httpx
import psycopg
from psycopg_pool import PoolTimeout
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rmhdag.serving.answers import json_answer, problem
from rmhdag.serving.file_answers import answer_file
from rmhdag.serving.health import Health
from rmhdag.serving.measures import Measures
from rmhdag.serving.published import PublishedFiles
from rmhdag.serving.service_kinds import FILES, TITLES, Service
from rmhdag.storage import BlobNotFound, StorageError

MOST_TARGET_CHARACTERS = 8 * 1024
MOST_BODY_BYTES = 256 * 1024
CONNECT_SECONDS = 2.0
WAITING_REQUESTS = 64
# Forwarded to services; the rest is about this connection, or none of their business.
TO_SERVICES = ("accept", "accept-language", "content-type", "if-none-match", "if-modified-since")
# Given back to callers.
FROM_SERVICES = (
    *("content-type", "content-length", "content-crs", "content-disposition", "cache-control", "etag", "last-modified"),
    *("link", "vary", "location", "ogc-numbermatched", "ogc-numberreturned"),
)
REFUSED_PARAMETERS = frozenset({"url", "src_path", "env"})
SAFETY = {"X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*"}
SEARCH = (Service.STAC, "/search")


class Backend:
    """A service on its socket: how many requests it has, and a client for it."""

    def __init__(self, socket_path: str, requests: int, seconds: float) -> None:
        self.turns = asyncio.Semaphore(requests)
        self.waiting = 0
        self.client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=socket_path, limits=httpx.Limits(max_connections=requests + 4)),
            base_url="http://service",
            timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
            trust_env=False,
        )


class Relay(StreamingResponse):
    """An answer of a service on its way. The service has its next turn when it is over, also if the caller has gone
    before anything was sent.
    """

    def __init__(self, answer: httpx.Response, backend: Backend, method: str, headers: Mapping[str, str]) -> None:
        super().__init__(nothing() if method == "HEAD" else answer.aiter_raw(), answer.status_code, headers)
        self._answer = answer
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            try:
                await self._answer.aclose()
            finally:
                self._backend.turns.release()


async def nothing() -> AsyncIterator[bytes]:
    return
    yield


class Proxy:
    """The ASGI application. `reasons` say why a service is not there."""

    def __init__(
        self,
        sockets: Mapping[Service, str],
        reasons: Mapping[Service, str],
        files: PublishedFiles,
        health: Health,
        measures: Measures,
        *,
        requests: int,
        seconds: float,
        public_url: str | None,
    ) -> None:
        self._sockets = sockets
        self._reasons = reasons
        self._files = files
        self._health = health
        self._measures = measures
        self._requests = requests
        self._seconds = seconds
        self._public = urlsplit(public_url) if public_url else None
        self._backends: dict[Service, Backend] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            began = time.monotonic()
            request = Request(scope, receive)
            first = request.url.path.split("/")[1]
            try:
                response = await self._answer(request)
            except ClientDisconnect:
                return
            name = first if first in (*Service, FILES) else "other"
            self._measures.count(name, response.status_code, time.monotonic() - began)
            await response(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._backends = {name: Backend(path, self._requests, self._seconds) for name, path in self._sockets.items()}
        clients = {name: backend.client for name, backend in self._backends.items()}
        watch = asyncio.create_task(self._health.watch(clients))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        watch.cancel()
        for backend in self._backends.values():
            await backend.client.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1") if request.scope.get("raw_path") else request.url.path
        refusal = refusal_of(request, path)
        if refusal is not None:
            return refusal
        _, first, *rest = path.split("/", 2)
        below = f"/{rest[0]}" if rest else "/"
        if path in OWN:
            return await OWN[path](self, request)
        if first == FILES:
            return await self._answer_file(request, below)
        if first not in tuple(Service):
            return problem(404, "not_found", f"there is nothing at {request.url.path[:200]}")
        service = Service(first)
        if request.method == "POST" and (service, below) != SEARCH:
            return problem(405, "method_not_allowed", "only reading is possible here", {"Allow": "GET, HEAD"})
        if service not in self._backends:
            return problem(404, "not_served", f"/{service} is not served: {self._reasons.get(service, 'not started')}")
        return await self._forward(request, service, below)

    async def _forward(self, request: Request, service: Service, below: str) -> Response:
        backend = self._backends[service]
        if backend.waiting >= WAITING_REQUESTS:
            return problem(503, "busy", f"too many requests wait for /{service}", {"Retry-After": "2"})
        body = b""
        if request.method == "POST":
            async for piece in request.stream():
                body += piece
                if len(body) > MOST_BODY_BYTES:
                    return problem(413, "body_too_large", f"a search has at most {MOST_BODY_BYTES} bytes")
        backend.waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                await backend.turns.acquire()
        except TimeoutError:
            return problem(503, "busy", f"too many requests wait for /{service}", {"Retry-After": "2"})
        finally:
            backend.waiting -= 1
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._send(request, backend, below, body)
        except (TimeoutError, httpx.TimeoutException):
            backend.turns.release()
            return problem(504, "too_slow", f"/{service} did not answer within {self._seconds:g} s; ask for less")
        except httpx.TransportError:
            backend.turns.release()
            return problem(503, "unavailable", f"/{service} is being restarted", {"Retry-After": "2"})
        except BaseException:
            backend.turns.release()
            raise
        headers = {name: answer.headers[name] for name in FROM_SERVICES if name in answer.headers} | SAFETY
        return Relay(answer, backend, request.method, headers)

    async def _send(self, request: Request, backend: Backend, below: str, body: bytes) -> httpx.Response:
        query = request.scope["query_string"].decode("latin-1")
        headers = {name: request.headers[name] for name in TO_SERVICES if name in request.headers}
        # Services answer HEAD differently, or not at all: they always get GET.
        message = backend.client.build_request(
            "POST" if request.method == "POST" else "GET",
            below + (f"?{query}" if query else ""),
            headers=headers | self._origin(request.headers) | {"Accept-Encoding": "identity"},
            content=body or None,
        )
        return await backend.client.send(message, stream=True)

    def _origin(self, headers: Headers) -> dict[str, str]:
        """Where links lead to: the public address, or the one under which the caller has reached us."""
        scheme, netloc = (self._public.scheme, self._public.netloc) if self._public else ("http", headers["host"])
        host, colon, port = netloc.rpartition(":")
        if not colon or not port.isdigit():
            host, port = netloc, "443" if scheme == "https" else "80"
        return {"Host": netloc, "X-Forwarded-Proto": scheme, "X-Forwarded-Host": host, "X-Forwarded-Port": port}

    async def _answer_file(self, request: Request, below: str) -> Response:
        parts = [unquote(part) for part in below.split("/")[1:]]
        if len(parts) != 3 or not all(parts):
            return problem(404, "not_found", f"files are at /{FILES}/collection/item/asset")
        try:
            collection_id, item_id, asset = parts
            file = await anyio.to_thread.run_sync(self._files.find, collection_id, item_id, asset)
        except BlobNotFound:
            file = None
        except (StorageError, psycopg.Error, PoolTimeout):
            return problem(503, "unavailable", "the file cannot be read at the moment", {"Retry-After": "2"})
        if file is None:
            return problem(404, "not_found", "no such file is published")
        return answer_file(file, request.method, request.headers)

    async def _landing(self, request: Request) -> Response:
        base = f"{self._public.geturl().rstrip('/')}" if self._public else str(request.base_url).rstrip("/")
        links = [{"rel": "self", "href": f"{base}/", "type": "application/json"}]
        links += [
            {"rel": "service", "href": f"{base}/{name}/", "type": "application/json", "title": TITLES[name]}
            for name in self._backends
        ]
        return json_answer({"title": "rmhdag services", "links": links, "not_served": self._not_served()})

    def _not_served(self) -> dict[str, str]:
        return {name.value: reason for name, reason in self._reasons.items()}

    async def _livez(self, request: Request) -> Response:
        return json_answer({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        states = self._health.states()
        ready = all(state.is_up for state in states.values())
        services = {name.value: "up" if state.is_up else "down" for name, state in states.items()}
        body = {"status": "ready" if ready else "not_ready", "services": services, "not_served": self._not_served()}
        return json_answer(body, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(self._measures.text(self._health.states()), media_type="text/plain; version=0.0.4")


OWN = {"/": Proxy._landing, "/livez": Proxy._livez, "/readyz": Proxy._readyz, "/metrics": Proxy._metrics}


def refusal_of(request: Request, path: str) -> Response | None:
    if request.method not in ("GET", "HEAD", "POST"):
        return problem(405, "method_not_allowed", "only reading is possible here", {"Allow": "GET, HEAD"})
    query = request.scope["query_string"].decode("latin-1")
    if len(path) + len(query) > MOST_TARGET_CHARACTERS:
        return problem(414, "uri_too_long", f"an address has at most {MOST_TARGET_CHARACTERS} characters")
    segments = unquote(path).split("/")
    if not path.startswith("/") or "\\" in unquote(path) or any(part in (".", "..") for part in segments):
        return problem(400, "invalid_path", "the path has `.`, `..` or a backslash")
    if "//" in path:
        # Behind the first part of the path it would be read as the name of a host.
        return problem(400, "invalid_path", "the path has an empty part")
    for name, _ in parse_qsl(query.replace(";", "&"), keep_blank_values=True):
        if name.strip().lower() in REFUSED_PARAMETERS:
            return problem(400, "parameter_refused", f"there is no parameter `{name[:32]}`: data is named by its path")
    if "host" not in request.headers or not is_host(request.headers["host"]):
        return problem(400, "invalid_host", "the header Host is not valid")
    return None


def is_host(text: str) -> bool:
    return 0 < len(text) <= 255 and all(
        letter.isascii() and (letter.isalnum() or letter in ".-:[]_") for letter in text
    )
