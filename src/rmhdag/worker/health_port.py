"""A worker's own health over HTTP: `/livez`, `/readyz`, `/health`, for whoever restarts it.

One thread answers one caller after the other. Each is read once and gets two seconds, so that no caller can hold up the
next one, let alone the worker. Nothing of tasks is told and no key is asked for; it listens on loopback unless told
otherwise.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from rmhdag.worker.settings import WorkerSettings

log = logging.getLogger("rmhdag.worker")
PATIENCE_SECONDS = 2.0
REQUEST_BYTES = 8_192


class WorkerHealth(NamedTuple):
    """`is_trusted`: its last heartbeat is fresh enough that nobody can have declared it dead."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int
    tasks_held: int
    tasks_done: int
    draining: bool
    is_trusted: bool

    @property
    def status(self) -> str:
        return "UNHEALTHY" if not self.is_trusted else "DEGRADED" if self.draining else "HEALTHY"


class HealthPort:
    """Listens from its making on; `close` ends it. A port that is taken is told in the log, and the worker works on."""

    def __init__(self, settings: WorkerSettings, look: Callable[[], WorkerHealth]) -> None:
        self._look = look
        self._listener: socket.socket | None = None
        try:
            self._listener = socket.create_server((settings.health_host, settings.health_port or 0))
        except OSError as error:
            log.warning("no health port %s:%s: %s", settings.health_host, settings.health_port, error)
            return
        log.info("health is told on http://%s:%s/health", *self._listener.getsockname()[:2])
        threading.Thread(target=self._serve, args=[self._listener], name="health", daemon=True).start()

    @property
    def port(self) -> int | None:
        return None if self._listener is None else int(self._listener.getsockname()[1])

    def close(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a caller
            self._listener.close()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller, suppress(OSError):
                caller.settimeout(PATIENCE_SECONDS)
                caller.sendall(answer(caller.recv(REQUEST_BYTES), self._look()))


def answer(request: bytes, found: WorkerHealth) -> bytes:
    """The whole answer to the first line of a request."""
    words = request.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
        return respond(HTTPStatus.BAD_REQUEST, {"detail": "GET /livez, /readyz or /health"})
    body: dict[str, Any]
    match words[1].partition(b"?")[0]:
        case b"/livez":
            status, body = HTTPStatus.OK, {"alive": True}
        case b"/readyz":
            ready = found.status == "HEALTHY"
            status, body = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, {"ready": ready}
        case b"/health":
            well = found.status != "UNHEALTHY"
            status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
            body = {"status": found.status, **found._asdict()}
        case _:
            status, body = HTTPStatus.NOT_FOUND, {"detail": "there is /livez, /readyz and /health"}
    return respond(status, body, with_body=words[0] == b"GET")


def respond(status: HTTPStatus, body: dict[str, Any], *, with_body: bool = True) -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (text if with_body else b"")
