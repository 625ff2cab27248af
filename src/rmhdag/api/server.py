"""How the application is served: uvicorn, with an end to what a client may keep us waiting for.

uvicorn waits for ever for a request that is begun and never finished, and answers what is not HTTP in plain text.
"""

from __future__ import annotations

import asyncio
import gc
import re
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
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from rmhdag.api.context import Api
from rmhdag.api.limits import HEADER_BYTES, head_too_large
from rmhdag.api.problems import Problem, respond
from rmhdag.api.processor_time import bill_of
from rmhdag.api.streams.responses import CONNECTION
from rmhdag.observability.logs import get_logger

# Ordinary calls end long before.
GRACE_SECONDS = 5
LINGER_SECONDS = 2.0
UNREAD_SECONDS = 30.0
SWITCH_SECONDS = 0.0005
# The system takes twice as much.
STREAM_BUFFER_BYTES = 64 * 1024
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_FOLDED_LINE = re.compile(rb"\n[ \t]")
_END_OF_HEAD = re.compile(rb"\n\r?\n")

log = get_logger(__name__)


class StrictConnection(h11.Connection):
    """Refuses what a proxy before us might read in another way than we do: a request that it takes for one could be two
    for us.
    """

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            head = _head_in(self.trailing_data[0])
            if _BARE_LINE_FEED.search(head):
                raise h11.RemoteProtocolError("a line of the head does not end with CR LF")
            if _FOLDED_LINE.search(head):
                raise h11.RemoteProtocolError("a header goes on in the next line")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding contradict each other")
            if b"transfer-encoding" in names and event.http_version < b"1.1":
                raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")
        return event


def _head_in(data: bytes) -> bytes:
    """As far as it is there; what follows is a body, which may hold anything."""
    end = _END_OF_HEAD.search(data, 0, HEADER_BYTES + 4)
    return data[: end.end() if end else HEADER_BYTES + 4]


class BoundedProtocol(H11Protocol):
    """A connection that has to say what it wants in time, and is told in our way that it said it wrongly."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
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
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        began = time.thread_time()
        super().data_received(data)
        if self.scope is not None:
            scope = cast(dict[str, Any], self.scope)
            bill_of(scope).add(time.thread_time() - began)
            scope[CONNECTION] = self
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            # The first byte has ended the keep-alive timer; from here on the whole head is due in time.
            self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._stop_watching()
            self._watch_unread()
        if self.conn.their_state is h11.SEND_BODY:
            # Answered before its body was there.
            self.loop.call_later(LINGER_SECONDS, self._end_unread_body, self.cycle)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        self.narrow()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        if len(self.conn.trailing_data[0]) > HEADER_BYTES:
            self._refuse(head_too_large())
        else:
            self._refuse(Problem(400, "invalid_http", "this is not a valid HTTP request"))

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._stop_watching()
        self._watch_unread()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_watching()
        self._watch_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()

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

    def _watch_unread(self, left_before: int | None = None) -> None:
        """What was written to a connection stays in memory until its client has read it, even if it is to be closed.
        A client that reads nothing for long is disconnected.
        """
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent == left_before:
            self.transport.abort()
        elif unsent:
            self._unread = self.loop.call_later(UNREAD_SECONDS, self._watch_unread, unsent)

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

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
