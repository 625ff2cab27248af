"""A worker's own health over HTTP: `/livez`, `/readyz`, `/health`, for supervisors that restart it.

One thread answers one caller after another. It reads each once and allows two seconds, so that no caller can delay
the next one, let alone the worker. Responses contain nothing about tasks, so no key is needed; the port listens on
loopback unless configured otherwise.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from rmhdag.observability.supervision import Loop, Supervisor
from rmhdag.worker.settings import WorkerSettings

log = logging.getLogger("rmhdag.worker")
PATIENCE_SECONDS = 2.0
ACCEPT_SECONDS = 5.0
REQUEST_BYTES = 8_192


class WorkerHealth(NamedTuple):
    """`is_trusted`: the last heartbeat is recent enough that no orchestrator can have declared the worker dead."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int
    tasks_held: int
    tasks_done: int
    draining: bool
    is_trusted: bool
    # Seconds since the last turn of each loop, the number of its restarts, and the loops that are overdue.
    loops: dict[str, float]
    threads: dict[str, int]
    late_loops: tuple[str, ...]
    # More than one if the worker has released everything and started over.
    lives: int

    @property
    def status(self) -> str:
        if not self.is_trusted or self.late_loops:
            return "UNHEALTHY"
        return "DEGRADED" if self.draining else "HEALTHY"


class HealthPort:
    """Listens from construction until `close`. If the port is taken, the worker logs that and goes on without it."""

    def __init__(self, settings: WorkerSettings, look: Callable[[], WorkerHealth]) -> None:
        self._look = look
        self._is_closed = False
        self._listener: socket.socket | None = None
        try:
            self._listener = socket.create_server((settings.health_host, settings.health_port or 0))
        except OSError as error:
            log.warning("no health port %s:%s: %s", settings.health_host, settings.health_port, error)
            return
        self._listener.settimeout(ACCEPT_SECONDS)
        log.info("health is reported at http://%s:%s/health", *self._listener.getsockname()[:2])

    def start(self, supervisor: Supervisor) -> None:
        if self._listener is not None:
            supervisor.start("health", self._serve, ACCEPT_SECONDS + 10 * PATIENCE_SECONDS)

    @property
    def port(self) -> int | None:
        return None if self._listener is None else int(self._listener.getsockname()[1])

    def close(self) -> None:
        self._is_closed = True
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a caller
            self._listener.close()

    def _serve(self, loop: Loop) -> None:
        """An error while a caller is answered does not end the loop."""
        listener = self._listener
        assert listener is not None
        while True:
            loop.turn()
            try:
                caller, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._is_closed:
                    return
                raise
            with caller, suppress(OSError):
                caller.settimeout(PATIENCE_SECONDS)
                request = caller.recv(REQUEST_BYTES)
                try:
                    response = answer(request, self._look())
                except Exception as error:
                    log.exception("health could not be reported")
                    response = respond(HTTPStatus.INTERNAL_SERVER_ERROR, {"detail": type(error).__name__})
                caller.sendall(response)


def answer(request: bytes, health: WorkerHealth) -> bytes:
    """The whole HTTP response to the first line of a request."""
    words = request.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
        return respond(HTTPStatus.BAD_REQUEST, {"detail": "GET /livez, /readyz or /health"})
    body: dict[str, Any]
    match words[1].partition(b"?")[0]:
        case b"/livez":
            alive = not health.late_loops
            status, body = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive}
        case b"/readyz":
            ready = health.status == "HEALTHY"
            status, body = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, {"ready": ready}
        case b"/health":
            well = health.status != "UNHEALTHY"
            status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
            body = {"status": health.status, **health._asdict()}
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
