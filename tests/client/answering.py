"""Servers that misbehave: one that gives prepared answers, one that stands before the API and loses answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx


@dataclass
class Prepared:
    """`status` None: the connection is closed without a word."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def problem(status: int, code: str = "some_code", **more: Any) -> Prepared:
    body = {"type": "x", "title": "x", "status": status, "code": code, "detail": f"told {code}", **more}
    return Prepared(status, body)


@dataclass
class Seen:
    """`requests` are those that came."""

    url: str = ""
    answers: list[Prepared] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    forward_to: str | None = None


@contextmanager
def answering(*answers: Prepared, forward_to: str | None = None) -> Iterator[Seen]:
    """The answers in turn; behind the last one everything goes to `forward_to`. With that, an answer without a status
    is lost on its way: the request was served."""
    seen = Seen(answers=list(answers), forward_to=forward_to)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            seen.requests.append((self.command, self.path))
            prepared = seen.answers.pop(0) if seen.answers else None
            served = None
            if seen.forward_to is not None and (prepared is None or prepared.status is None):
                served = self.pass_on(body)
            if prepared is None:
                assert served is not None, "a request that nobody expected"
                kind = served.headers.get("content-type")
                prepared = Prepared(served.status_code, served.content, {"Content-Type": kind} if kind else {})
            if prepared.status is None:
                self.close_connection = True
                return
            content = prepared.content()
            self.send_response(prepared.status)
            for name, value in prepared.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def pass_on(self, body: bytes) -> httpx.Response:
            kept = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
            target = f"{seen.forward_to}{self.path}"
            return httpx.request(self.command, target, content=body, headers=kept, timeout=60, trust_env=False)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    seen.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
