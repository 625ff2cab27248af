"""The platform and this process in Prometheus' text format."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.responses import Response

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.models.scopes import Scope
from rmhdag.views.exposition import take_snapshot
from rmhdag.views.memory import Memory

router = APIRouter(tags=["metrics"])
FRESH_SECONDS = 1.0


class MetricsText(Response):
    media_type = "text/plain"

    def __init__(self, content: bytes, status_code: int = 200) -> None:
        super().__init__(content, status_code, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


@router.get("/metrics", summary="Metrics for Prometheus", response_class=MetricsText, status_code=200)
def metrics(request: Request, caller: Reader, api: ApiContext) -> MetricsText:
    """Of the caller's namespace and the processes that serve it, a second old at most; with the scope `platform` also
    of all namespaces together, of the database, and of this API.
    """
    snapshots: Memory[tuple[str, bool], tuple[float, bytes]] = request.app.state.snapshots
    of_platform = caller.may(Scope.PLATFORM)
    key = (caller.namespace, of_platform)
    cached = snapshots.recall(key)
    if cached is None or time.monotonic() - cached[0] > FRESH_SECONDS:
        with api.connection() as conn:
            listeners = api.streams.listeners_of(caller.namespace)
            snapshot = take_snapshot(conn, api.settings, caller.namespace, of_platform=of_platform, listeners=listeners)
        cached = snapshots.keep(key, (time.monotonic(), generate_latest(snapshot)))
    own = generate_latest(request.app.state.meters.registry) if of_platform else b""
    return MetricsText(cached[1] + own)
