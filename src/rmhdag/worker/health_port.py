"""A worker's own health over HTTP: `/livez`, `/readyz`, `/health`, for whoever restarts it.

One thread answers one caller after the other. Each is read once and gets two seconds, so that no caller can hold up the
next one, let alone the worker. Nothing of tasks is told and no key is asked for; it listens on loopback unless told
otherwise.
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
    """`is_trusted`: its last heartbeat is fresh enough that nobody can have declared it dead."""

    worker_id: str
    queues: tuple[str, ...]
    slots: int
    tasks_held: int
    tasks_done: int
    draining: bool
    is_trusted: bool
    # Seconds since each loop last came round, how often each was started again, and which are overdue.
    loops: dict[str, float]
    threads: dict[str, int]
    late_loops: tuple[str, ...]
    # More than one if it has given up what it held and begun anew.
    lives: int

    @property
    def status(self) -> str:
        if not self.is_trusted or self.late_loops:
            return "UNHEALTHY"
        return "DEGRADED" if self.draining else "HEALTHY"


class HealthPort:
    """Listens from its making on; `close` ends it. A port that is taken is told in the log, and the worker works on."""

    def __init__(self, settings: WorkerSettings, look: Callable[[], WorkerHealth]) -> None:
        self._look = look
        self._is_closed = False
        self._listener: socket.socket | None = None
        try:
            self._listener = socket.create_server((settings.health_host, settings.health_port or 0))
        except OSError as error:
            log.warning("no health port %s:%s: %s", settings.health_host, settings.health_port, error)
            return
        log.info("health is told on http://%s:%s/health", *self._listener.getsockname()[:2])

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
        """No caller ends it, whatever happens while it is answered."""
        listener = self._listener
        assert listener is not None
        listener.settimeout(ACCEPT_SECONDS)
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
                    told = answer(request, self._look())
                except Exception as error:
                    log.exception("health could not be told")
                    told = respond(HTTPStatus.INTERNAL_SERVER_ERROR, {"detail": type(error).__name__})
                caller.sendall(told)


def answer(request: bytes, found: WorkerHealth) -> bytes:
    """The whole answer to the first line of a request."""
    words = request.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
        return respond(HTTPStatus.BAD_REQUEST, {"detail": "GET /livez, /readyz or /health"})
    body: dict[str, Any]
    match words[1].partition(b"?")[0]:
        case b"/livez":
            alive = not found.late_loops
            status, body = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive}
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
