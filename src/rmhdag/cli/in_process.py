"""The API application inside the command itself, where none runs: the same client, routes and use cases, no socket."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from fastapi import FastAPI

from rmhdag.api.application import build, serve_path
from rmhdag.api.context import ApiSettings
from rmhdag.observability.logs import logging_as


class InProcessTransport(httpx.BaseTransport):
    """Requests of a blocking client, answered by an application in the thread that asks."""

    def __init__(self, app: FastAPI) -> None:
        # An unexpected error is the command's own, with its traceback for --debug.
        self._app = app
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        serve_path(self._app, request.url.path)
        return self._runner.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

    def close(self) -> None:
        self._runner.close()


@contextmanager
def in_process(settings: ApiSettings) -> Iterator[InProcessTransport]:
    """What it would log is told by the command."""
    app = build(settings, serves_command=True)
    app.state.api.open()
    try:
        with logging_as("logfmt", "error", io.StringIO()):
            yield InProcessTransport(app)
    finally:
        app.state.api.close()
