"""A real `rmhdag api` process, and bytes on a socket: for what no HTTP library would send."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from tests.api.serving import Served
from tests.store.waiting import wait_until

PATIENCE_SECONDS = 30.0
LISTENS = re.compile(r"listens on (http://127\.0\.0\.1:(\d+))")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, object]:
        assert self.headers["content-type"] == "application/problem+json", self
        found: dict[str, object] = orjson.loads(self.body)
        return found


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self._ahead = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> Answer:
        """The next answer; its end is told by its length."""
        lines = self.read_head().decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", "0"))
        while len(self._ahead) < length:
            self._receive()
        body, self._ahead = self._ahead[:length], self._ahead[length:]
        return Answer(int(lines[0].split()[1]), headers, body)

    def read_head(self) -> bytes:
        while b"\r\n\r\n" not in self._ahead:
            self._receive()
        head, _, self._ahead = self._ahead.partition(b"\r\n\r\n")
        return head

    def is_closed(self) -> bool:
        """Whether the other side hangs up, sooner or later; what it still says is read away."""
        try:
            while self._socket.recv(65536):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        assert data, "the server hung up"
        self._ahead += data


class ApiProcess(Served):
    def __init__(self, url: str, dsn: str, port: int, log: Path) -> None:
        super().__init__(url, dsn)
        self.port = port
        self._log = log

    def wire(self) -> Wire:
        return Wire(self.port)

    def told(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def started_api(dsn: str, folder: Path, **variables: str) -> Iterator[ApiProcess]:
    log = folder / "api.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")} | {
        "RMHDAG_DATABASE_URL": dsn,
        "RMHDAG_HOME": str(folder / "home"),
        "JOB_QUEUE_NAME": "jobs",
        "DAG_WORKER_QUEUE": "light",
        "WORKER_QUEUE": "heavy",
        **variables,
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", "api", "--port", "0"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        found = wait_until(lambda: _address(process, log), PATIENCE_SECONDS)
        api = ApiProcess(found[1], dsn, int(found[2]), log)
        try:
            yield api
        finally:
            api.close()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> re.Match[str] | None:
    told = log.read_text(encoding="utf-8", errors="replace")
    assert process.poll() is None, told
    return LISTENS.search(told)
