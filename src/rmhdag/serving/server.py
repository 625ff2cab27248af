"""The proxy under uvicorn, in a thread of its own: the main thread looks after the processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rmhdag.machine.strict_http import HEADER_BYTES, Answer, StrictProtocol
from rmhdag.serving.answers import problem
from rmhdag.serving.proxy import Proxy

GRACE_SECONDS = 5
KEEP_ALIVE_SECONDS = 75
# More at once are answered with 503 by uvicorn itself.
MOST_CONNECTIONS = 2_000


class ProxyProtocol(StrictProtocol):
    def refusal(self, status: int, code: str, detail: str) -> Answer:
        answer = problem(status, code, detail)
        return Answer(status, answer.raw_headers, bytes(answer.body))


@contextmanager
def proxy_running(proxy: Proxy, listeners: list[socket.socket]) -> Iterator[None]:
    server = uvicorn.Server(
        uvicorn.Config(
            proxy,
            http=ProxyProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=HEADER_BYTES,
        )
    )
    thread = threading.Thread(target=server.run, args=(listeners,), name="services proxy")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
