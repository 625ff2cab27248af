"""The HTTP API beside a platform: a process of its own, a key, and clients that keep their connections."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import httpx

from rmhdag.lab.bench.process import spawn
from rmhdag.lab.bench.rig import PROCESS_SECONDS, SCHEMA, BenchFailed, Rig
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys

START_SECONDS = 30.0
# What is measured is how much the server can do, and not how much one tenant may.
UNLIMITED = {"requests_per_second": 10**9, "listeners": 10**6, "open_jobs": 10**9, "stored_bytes": 2**53}


class HttpApi:
    """Answers when the `with` block begins; gone when it ends."""

    def __init__(self, rig: Rig, **settings: Any) -> None:
        self._rig = rig
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._clients = ExitStack()
        scopes = (Scope.READ, Scope.SUBMIT, Scope.OPERATE)
        self.key = api_keys.create_key(rig.conn, "bench", scopes, created_by="bench")[1]
        self.url = ""

    def __enter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        settings = {"dsn": self._rig.dsn, "schema_name": SCHEMA, "port": port, "quotas": UNLIMITED, **self._settings}
        self._process = spawn("api", settings, self._rig.log)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.close()
        self._stop()

    def client(self) -> httpx.Client:
        client = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60, trust_env=False
        )
        return self._clients.enter_context(client)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        with httpx.Client(base_url=self.url, trust_env=False) as client:
            while True:
                try:
                    if client.get("/readyz").status_code == 200:
                        return
                except httpx.TransportError:
                    pass
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise BenchFailed(f"the API does not answer; {self._rig.log_tail(20)}")
                time.sleep(0.02)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PROCESS_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def serve(port: int, quotas: dict[str, int] | None = None, **settings: Any) -> None:
    """What the process does."""
    from rmhdag.api.application import build
    from rmhdag.api.context import ApiSettings
    from rmhdag.api.server import ApiServer
    from rmhdag.machine.memory import give_memory_back
    from rmhdag.models.quotas import Quotas

    settings["quotas"] = Quotas().with_overrides(quotas or {})
    if "queues" in settings:
        settings["queues"] = frozenset(settings["queues"])
    with socket.create_server(("127.0.0.1", port)) as listener:
        give_memory_back()
        ApiServer(build(ApiSettings(**settings))).run(sockets=[listener])
