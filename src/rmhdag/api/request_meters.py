"""Counts and times every request of this process, by route as it is declared: never by what a caller put into it."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUCKETS = (0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Meters:
    """They have their own registry: the library's global one belongs to the application that embeds the API."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route")
        self.requests = Counter("rmhdag_api_requests", "Requests answered", (*labels, "status"), registry=self.registry)
        self.seconds = Histogram(
            "rmhdag_api_request_seconds",
            "Until the answer began; a stream may go on for hours",
            labels,
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.refusals = Counter(
            "rmhdag_api_refusals", "Calls refused for who made them", ["code"], registry=self.registry
        )
        self.in_progress = Gauge("rmhdag_api_requests_in_progress", "Requests being answered", registry=self.registry)


class RequestMeters:
    """Outermost, so that refusals are counted too."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app = app
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, took = 500, None

        async def noting(message: Message) -> None:
            nonlocal status, took
            if message["type"] == "http.response.start":
                status, took = message["status"], time.perf_counter() - began
            await send(message)

        self._meters.in_progress.inc()
        try:
            await self._app(scope, receive, noting)
        finally:
            self._meters.in_progress.dec()
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = route_of(scope)
            self._meters.requests.labels(method, route, str(status)).inc()
            self._meters.seconds.labels(method, route).observe(time.perf_counter() - began if took is None else took)


def route_of(scope: Scope) -> str:
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "unknown"
