"""Requests as bytes: one that is fine, and those that two readers might take for different ones."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def open_connection(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)


def send(url: str, text: bytes) -> bytes:
    """What comes back before the server hangs up or has answered."""
    with open_connection(url) as connection:
        connection.sendall(text)
        return connection.recv(65536)


GOOD = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\nConnection: close\r\n\r\n"
AMBIGUOUS = [
    GOOD.replace(b"X-A: b\r\n", b"X-A: b\n"),
    GOOD.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
    GOOD.replace(b"\r\n", b"\n"),
    GOOD.replace(b"\r\n\r\n", b"\r\n\n"),
    GOOD.replace(b"X-A: b", b"X-A: b\nTransfer-Encoding: chunked"),
    GOOD.replace(b"X-A: b", b"X-A:\r\n b"),
    GOOD.replace(b"X-A: b", b"X-A: b\r\n\tTransfer-Encoding: chunked"),
    GOOD.replace(b"Host", b" Host"),
    b"POST /livez HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /livez HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\n",
]
