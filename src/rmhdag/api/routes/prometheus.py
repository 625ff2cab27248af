"""The platform and this process in Prometheus' text format."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.responses import Response

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.views.exposition import take_snapshot
from rmhdag.api.views.memory import Memory

router = APIRouter(tags=["metrics"])
FRESH_SECONDS = 1.0


class MetricsText(Response):
    media_type = "text/plain"

    def __init__(self, content: bytes, status_code: int = 200) -> None:
        super().__init__(content, status_code, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


@router.get("/metrics", summary="Metrics for Prometheus", response_class=MetricsText, status_code=200)
def metrics(request: Request, caller: Reader, api: ApiContext) -> MetricsText:
    """Of the caller's namespace, of all processes, of the database, and of this API; a second old at most."""
    known: Memory[str, tuple[float, bytes]] = request.app.state.snapshots
    found = known.recall(caller.namespace)
    if found is None or time.monotonic() - found[0] > FRESH_SECONDS:
        with api.connection() as conn:
            snapshot = take_snapshot(conn, api.settings, caller.namespace)
        found = known.keep(caller.namespace, (time.monotonic(), generate_latest(snapshot)))
    return MetricsText(found[1] + generate_latest(request.app.state.meters.registry))
