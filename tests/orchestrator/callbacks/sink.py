"""A receiver of callbacks that misbehaves as it is told: a thread per connection, raw sockets, all recorded."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self


class Received(NamedTuple):
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]


Behaviour = Callable[[socket.socket, threading.Event], None]


def answer(status: int, *headers: str, body: bytes = b"") -> Behaviour:
    head = "\r\n".join([f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", ""])

    def behave(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(head.encode() + body)

    return behave


def hang(peer: socket.socket, over: threading.Event) -> None:
    """Take everything, say nothing."""
    over.wait(60)


def reset(peer: socket.socket, over: threading.Event) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(peer: socket.socket, over: threading.Event) -> None:
    """Close without a word."""


def drip(first: bytes, more: bytes) -> Behaviour:
    """A byte now and then, for ever: no pause is long, the whole is."""

    def behave(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(first)
        while not over.wait(0.02):
            peer.sendall(more)

    return behave


def flood(first: bytes) -> Behaviour:
    """As fast as it goes, for ever."""

    def behave(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(first)
        while not over.is_set():
            peer.sendall(b"x" * 65_536)

    return behave


OK = answer(204)


class Sink:
    """`script[path]` are the behaviours of the first, second… request; the last one stays. Without one: 204."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.script: dict[str, list[Behaviour]] = defaultdict(lambda: [OK])
        self.received: list[Received] = []
        self.connections = 0
        self._tls = tls
        self._over = threading.Event()
        self._listener = socket.create_server((address, port), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.host = f"{address}:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, path: str = "/hook") -> str:
        return f"http://{self.host}{path}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=[peer], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError):
            peer.settimeout(30)
            if self._tls is not None:
                peer = self._tls.wrap_socket(peer, server_side=True)
            with peer:
                request = self._read(peer)
                path = request.target.partition("?")[0]
                planned = self.script[path]
                behave = planned.pop(0) if len(planned) > 1 else planned[0]
                self.received.append(request)
                behave(peer, self._over)

    def _read(self, peer: socket.socket) -> Received:
        data = b""
        while b"\r\n\r\n" not in data:
            more = peer.recv(65_536)
            if not more:
                raise OSError("nothing was asked")
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += peer.recv(65_536)
        return Received(first.split(" ")[1], headers, body)
