"""How the application is served: uvicorn, with an end to what a client may keep us waiting for.

uvicorn waits for ever for a request that is begun and never finished, and answers what is not HTTP in plain text.
"""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from rmhdag.api.context import Api
from rmhdag.api.limits import HEADER_BYTES, head_too_large
from rmhdag.api.problems import Problem, respond
from rmhdag.observability.logs import get_logger

# Ordinary calls end long before.
GRACE_SECONDS = 5
LINGER_SECONDS = 2.0
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_END_OF_HEAD = re.compile(rb"\n\r?\n")

log = get_logger(__name__)


class StrictConnection(h11.Connection):
    """Refuses what a proxy before us might read in another way than we do: a request that it takes for one could be two
    for us.
    """

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE and _BARE_LINE_FEED.search(_head_in(self.trailing_data[0])):
            raise h11.RemoteProtocolError("a line of the head does not end with CR LF")
        event = super().next_event()
        if isinstance(event, h11.Request) and {b"content-length", b"transfer-encoding"} <= {
            name for name, _ in event.headers
        }:
            raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding contradict each other")
        return event


def _head_in(data: bytes) -> bytes:
    """As far as it is there; what follows is a body, which may hold anything."""
    end = _END_OF_HEAD.search(data, 0, HEADER_BYTES + 4)
    return data[: end.end() if end else HEADER_BYTES + 4]


class BoundedProtocol(H11Protocol):
    """A connection that has to say what it wants in time, and is told in our way that it said it wrongly."""

    _deadline: asyncio.TimerHandle | None = None
    _is_refused = False
    header_seconds = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.conn = StrictConnection(h11.SERVER, HEADER_BYTES)
        super().connection_made(transport)
        # asyncio does it only for sockets that know their protocol's number; without it an answer's body waits for the
        # acknowledgement of its head, 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            # The first byte has ended the keep-alive timer; from here on the whole head is due in time.
            self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            # Answered before its body was there.
            self.loop.call_later(LINGER_SECONDS, self._end_unread_body, self.cycle)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        if len(self.conn.trailing_data[0]) > HEADER_BYTES:
            self._refuse(head_too_large())
        else:
            self._refuse(Problem(400, "invalid_http", "this is not a valid HTTP request"))

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self._end_slow_request)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_slow_request(self) -> None:
        self._deadline = None
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            return
        if self.conn.trailing_data[0]:
            self._refuse(Problem(408, "head_too_slow", "the head of the request did not arrive in time"))
        else:
            self.transport.close()

    def _end_unread_body(self, cycle: RequestResponseCycle) -> None:
        """Unless the body came after all, and another request behind it."""
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        answer = respond(problem)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        try:
            parts = [
                self.conn.send(
                    h11.Response(
                        status_code=answer.status_code, headers=headers, reason=STATUS_PHRASES[answer.status_code]
                    )
                ),
                self.conn.send(h11.Data(data=bytes(answer.body))),
                self.conn.send(h11.EndOfMessage()),
            ]
        except h11.LocalProtocolError:
            log.debug("refusal_not_sent", reason="an answer was under way")
            self.transport.close()
            return
        self._is_refused = True
        self.transport.write(b"".join(part for part in parts if part))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        # What still comes is read away: to close now would reset what the client has not read yet.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


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
