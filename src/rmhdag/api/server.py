"""How the application is served: uvicorn, with an end to what a client may keep us waiting for."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import h11
import uvicorn
from fastapi import FastAPI

from rmhdag.api.context import Api
from rmhdag.api.problems import Problem, respond
from rmhdag.api.processor_time import bill_of
from rmhdag.api.streams.responses import CONNECTION
from rmhdag.machine.strict_http import HEADER_BYTES, Answer, StrictProtocol

# Ordinary calls end long before.
GRACE_SECONDS = 5
SWITCH_SECONDS = 0.0005
# The system takes twice as much.
STREAM_BUFFER_BYTES = 64 * 1024


class BoundedProtocol(StrictProtocol):
    """Bills what reading costs, and lets streams have narrow buffers."""

    def refusal(self, status: int, code: str, detail: str) -> Answer:
        answer = respond(Problem(status, code, detail))
        return Answer(answer.status_code, answer.raw_headers, bytes(answer.body))

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        began = time.thread_time()
        super().data_received(data)
        if self.scope is not None:
            scope = cast(dict[str, Any], self.scope)
            bill_of(scope).add(time.thread_time() - began)
            scope[CONNECTION] = self

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.stop_waiting()
        self.narrow()
        super().handle_websocket_upgrade(event)

    def abort(self) -> None:
        """Without waiting until the client has read what was sent."""
        self.transport.abort()

    def narrow(self) -> None:
        """For a stream. Else the system would keep up to 4 MB, and we another 128 KB, for each client that does not
        read.
        """
        if self.transport.is_closing():  # a browser that left the page at once: there is no socket any more
            return
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, STREAM_BUFFER_BYTES)
        self.transport.set_write_buffer_limits(high=STREAM_BUFFER_BYTES // 4)


def configure(app: FastAPI) -> uvicorn.Config:
    api: Api = app.state.api

    class Protocol(BoundedProtocol):
        header_seconds = api.settings.header_seconds

    return uvicorn.Config(
        app,
        http=Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        ws_max_size=64 * 1024,
    )


class ApiServer(uvicorn.Server):
    """Who waits for something is released before connections are waited for, so that the server stops at once."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(configure(app))
        self._api: Api = app.state.api

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        if threading.current_thread() is threading.main_thread():
            # The process is ours. What it has loaded stays; to walk it again and again takes 50 ms from callers.
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 20)
            # The event loop asks for the interpreter after each call of the system; with the usual 5 ms it waits
            # for a thread that computes, ten times per request.
            sys.setswitchinterval(SWITCH_SECONDS)
        super().run(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Being told to stop is no failure; uvicorn itself would raise the signal again when everything has ended."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.streams.end_streams()
        self._api.bells.release_all()
        await super().shutdown(sockets)
