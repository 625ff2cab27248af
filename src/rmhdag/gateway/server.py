"""The gateway under uvicorn."""

from __future__ import annotations

import gc
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rmhdag.gateway.application import Gateway
from rmhdag.gateway.configuration import GatewayConfiguration
from rmhdag.gateway.problems import Problem
from rmhdag.machine.strict_http import HEADER_BYTES, Answer, StrictProtocol

GRACE_SECONDS = 5
# Longer than partners pause between two polls, and longer than the proxies before us.
KEEP_ALIVE_SECONDS = 75
# More at once are answered with 503 by uvicorn itself.
MOST_CONNECTIONS = 4_000


class GatewayProtocol(StrictProtocol):
    def refusal(self, status: int, code: str, detail: str) -> Answer:
        answer = Problem(status, code, detail).response()
        return Answer(status, answer.raw_headers, bytes(answer.body))


class GatewayServer(uvicorn.Server):
    def __init__(self, gateway: Gateway) -> None:
        super().__init__(
            uvicorn.Config(
                gateway,
                http=GatewayProtocol,
                ws="none",
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

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        if threading.current_thread() is threading.main_thread():
            # What is loaded stays; to walk it again and again takes milliseconds from callers. The garbage among it is
            # a thousand small objects, and to look for it first would delay the start by 50 ms.
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


def serve(
    settings: GatewayConfiguration,
    schema_name: str,
    listener: socket.socket,
    *,
    pooled: bool,
    retention_days: float = 30.0,
) -> None:
    """Until SIGTERM or Ctrl-C."""
    gateway = Gateway(settings, schema_name=schema_name, pooled=pooled, retention_days=retention_days)
    GatewayServer(gateway).run(sockets=[listener])
