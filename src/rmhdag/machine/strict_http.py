"""A connection that has to say what it wants in time and in one way only, for every server of ours under uvicorn.

uvicorn waits for ever for a request that is begun and never finished, reads heads that a proxy before us might read in
another way, and answers what is not HTTP in plain text.
"""

from __future__ import annotations

import asyncio
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

HEADER_BYTES = 32 * 1024
LINGER_SECONDS = 2.0
UNREAD_SECONDS = 30.0
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_FOLDED_LINE = re.compile(rb"\n[ \t]")
_END_OF_HEAD = re.compile(rb"\n\r?\n")


class Answer(NamedTuple):
    """To what no application has seen."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


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


class StrictProtocol(H11Protocol, ABC):
    """Each server says in its own words why it refuses."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    is_refused = False
    header_seconds = 10.0

    @abstractmethod
    def refusal(self, status: int, code: str, detail: str) -> Answer:
        """The whole answer; the connection is closed after it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.conn = StrictConnection(h11.SERVER, HEADER_BYTES)
        super().connection_made(transport)
        # asyncio does it only for sockets that know their protocol's number; without it an answer's body waits for the
        # acknowledgement of its head, 40 ms.
        connection = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.is_refused:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self.stop_waiting()
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

    def send_400_response(self, msg: str) -> None:
        if len(self.conn.trailing_data[0]) > HEADER_BYTES:
            detail = f"address and headers of a request have at most {HEADER_BYTES} bytes"
            self._refuse(self.refusal(431, "head_too_large", detail))
        else:
            self._refuse(self.refusal(400, "invalid_http", "this is not a valid HTTP request"))

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

    def stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self._end_slow_request)

    def _end_slow_request(self) -> None:
        self._deadline = None
        if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
            return
        if self.conn.trailing_data[0]:
            self._refuse(self.refusal(408, "head_too_slow", "the head of the request did not arrive in time"))
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

    def _refuse(self, answer: Answer) -> None:
        headers = [*answer.headers, (b"connection", b"close")]
        try:
            parts = [
                self.conn.send(
                    h11.Response(status_code=answer.status, headers=headers, reason=STATUS_PHRASES[answer.status])
                ),
                self.conn.send(h11.Data(data=answer.body)),
                self.conn.send(h11.EndOfMessage()),
            ]
        except h11.LocalProtocolError:  # an answer was under way
            self.transport.close()
            return
        self.is_refused = True
        self.transport.write(b"".join(part for part in parts if part))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        # What still comes is read away: to close now would reset what the client has not read yet.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
