"""Which calls have spans, and how a caller's traceparent is passed on if this process sends none.

FastAPI opens the spans by itself as soon as a provider is set (`observability.traces`).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp, Receive, Scope, Send

from rmhdag.observability import traces

# Asked every few seconds by machines, and of interest to nobody.
UNTRACED = frozenset({"/livez", "/readyz", "/metrics"})


def is_untraced(scope: MutableMapping[str, Any]) -> bool:
    return scope.get("path") in UNTRACED


# One span per call: those of its parts would be most of what is sent and tell little.
TELEMETRY: TelemetryConfig = {
    "operation_spans": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
    "exclude": is_untraced,
}


class PassedOnTrace:
    """Orchestrators and workers may send spans although this process does not: a job then joins its caller's trace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        trace_parent = None
        if scope["type"] == "http" and traces.active() is None:
            trace_parent = next((value for name, value in scope["headers"] if name == b"traceparent"), None)
        with traces.inside(None if trace_parent is None else trace_parent.decode("latin-1")):
            await self._app(scope, receive, send)
