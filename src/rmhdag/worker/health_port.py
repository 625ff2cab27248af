"""A worker's own health over HTTP: `/livez`, `/readyz`, `/health`, for whoever restarts it.

One thread that answers one caller after the other and gives each two seconds: whatever a caller does, the worker goes
on. Nothing of tasks is told, so no key is asked for; it listens on loopback unless told otherwise.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

from rmhdag.worker.settings import WorkerSettings

log = logging.getLogger("rmhdag.worker")
PATIENCE_SECONDS = 2.0


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
    """Listens from its making on; `close` ends it. A port that is taken is told in the log, the worker works on."""

    def __init__(self, settings: WorkerSettings, look: Callable[[], WorkerHealth]) -> None:
        self._server: HTTPServer | None = None

        class Handler(BaseHTTPRequestHandler):
            timeout = PATIENCE_SECONDS
            server_version = "rmhdag"
            sys_version = ""

            def do_GET(self) -> None:
                answer(self, look())

            do_HEAD = do_GET

            def log_message(self, format: str, *given: Any) -> None:
                """Probes come every few seconds."""

        try:
            self._server = HTTPServer((settings.health_host, settings.health_port or 0), Handler)
        except OSError as error:
            log.warning("no health port: %s:%s: %s", settings.health_host, settings.health_port, error.strerror)
            return
        log.info("health is told on http://%s:%s/health", *self.address)
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        return self._server.server_address[0], self._server.server_address[1]  # type: ignore[return-value]

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def answer(request: BaseHTTPRequestHandler, found: WorkerHealth) -> None:
    path = request.path.partition("?")[0]
    if path == "/livez":
        send(request, 200, {"alive": True})
    elif path == "/readyz":
        ready = found.status == "HEALTHY"
        send(request, 200 if ready else 503, {"ready": ready})
    elif path == "/health":
        send(request, 503 if found.status == "UNHEALTHY" else 200, {"status": found.status, **found._asdict()})
    else:
        send(request, 404, {"detail": "there is /livez, /readyz and /health"})


def send(request: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
    text = json.dumps(body).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(text)))
    request.send_header("Cache-Control", "no-store")
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(text)
