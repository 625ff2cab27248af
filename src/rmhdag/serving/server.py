"""The proxy under uvicorn, in a thread of its own: the main thread looks after the processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rmhdag.serving.proxy import Proxy

GRACE_SECONDS = 5
KEEP_ALIVE_SECONDS = 75
HEADER_BYTES = 32 * 1024
# More at once are answered with 503 by uvicorn itself.
MOST_CONNECTIONS = 2_000


@contextmanager
def proxy_running(proxy: Proxy, listeners: list[socket.socket]) -> Iterator[None]:
    server = uvicorn.Server(
        uvicorn.Config(
            proxy,
            http="h11",
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
