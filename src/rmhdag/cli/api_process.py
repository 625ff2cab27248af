"""The API as a child process: the listening socket is ours, so that no client is refused during a restart."""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rmhdag.cli.acting_name import who
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import paint, say
from rmhdag.cli.run_api import address_of, listen
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.cli.supervisor import Supervisor
from rmhdag.machine.python import python_command
from rmhdag.models.scopes import Scope

PORTS_TRIED = 50
ANSWER_SECONDS = 2.0
PATIENCE_SECONDS = 10.0
NAMESPACE = "default"


def api_command(parent: int, listener: socket.socket, door: Path | None = None) -> list[str]:
    words = ["--parent", str(parent), "--listener", str(listener.fileno())]
    return python_command("rmhdag.cli", "api", *words, *([] if door is None else ["--door", str(door)]))


@contextmanager
def listening(settings: Settings, flags: Mapping[str, Any]) -> Iterator[socket.socket]:
    """On the port that is set; on the next free one if nobody has set it and the default is taken."""
    is_default = load_settings(flags).origins["api_port"] == "default"
    listener = listen_nearby(settings.api_host, settings.api_port, PORTS_TRIED if is_default else 1)
    with listener:
        yield listener


@contextmanager
def services_listening(settings: Settings, flags: Mapping[str, Any], *, serves: bool) -> Iterator[socket.socket | None]:
    """The same for `rmhdag serve`; None if it is not wanted."""
    if not serves:
        yield None
        return
    is_default = load_settings(flags).origins["serve_port"] == "default"
    with listen_nearby(settings.serve_host, settings.serve_port, PORTS_TRIED if is_default else 1) as listener:
        yield listener


def listen_nearby(host: str, port: int, tries: int) -> socket.socket:
    for number in range(port, port + tries - 1):
        with suppress(CommandFailed):
            return listen(host, number)
    return listen(host, port + tries - 1)


def answers(listener: socket.socket) -> bool:
    host, port = near_address(listener) or listener.getsockname()[:2]
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def near_address(listener: socket.socket) -> tuple[str, int] | None:
    """How this machine itself reaches the socket over loopback; None if it does not."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return ("127.0.0.1" if address.version == 4 else "::1", port)
    return (host, port) if address.is_loopback else None


def near_url(listener: socket.socket) -> str | None:
    near = near_address(listener)
    if near is None:
        return None
    host = f"[{near[0]}]" if ":" in near[0] else near[0]
    return f"http://{host}:{near[1]}"


@contextmanager
def login_link(dsn: str, settings: Settings, home: Path, listener: socket.socket) -> Iterator[str | None]:
    """A link that lets one browser on this machine in. What came of it ends with us; if we were killed, with the next
    one who is started on the same folder.
    """
    import psycopg

    from rmhdag.cli.database import open_connection
    from rmhdag.store import api_keys

    near = near_url(listener)
    maker = "up-" + hashlib.sha256(f"{socket.gethostname()}\0{home.resolve()}".encode()).hexdigest()[:16]
    scopes = (Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.ADMIN, Scope.PLATFORM)
    with open_connection(dsn, settings) as conn:
        api_keys.end_logins(conn, NAMESPACE, maker)
        token = None
        if near is not None:
            token = api_keys.create_login(conn, who(None), scopes, created_by=maker, namespace=NAMESPACE)
    try:
        yield None if near is None else f"{near}/login?token={token}"
    finally:
        # A database that is gone lets nobody in either.
        with suppress(psycopg.Error), open_connection(dsn, settings) as conn:
            api_keys.end_logins(conn, NAMESPACE, maker)


@contextmanager
def api_beside(settings: Settings, flags: Mapping[str, Any]) -> Iterator[None]:
    """An API process while the block runs, started again if it dies."""
    variables = {"RMHDAG_DATABASE_URL": flags["database_url"], "RMHDAG_SCHEMA": flags["schema_name"]}
    environment = os.environ | {name: value for name, value in variables.items() if value is not None}
    listener = listen(settings.api_host, settings.api_port)
    say(f"the API listens on {address_of(listener)}")
    watcher = Supervisor(None, environment, lambda text: say(f"{paint('warning:', '33', sys.stderr)} {text}"))

    def look_after() -> None:
        # In this thread, for a process that dies with its parent dies with the thread that started it.
        watcher.start("api", api_command(os.getpid(), listener), [listener.fileno()])
        while not watcher.stopping:
            watcher.turn()
        watcher.end("api", PATIENCE_SECONDS)

    thread = threading.Thread(target=look_after, name="api")
    thread.start()
    try:
        yield
    finally:
        watcher.ask_to_stop()
        thread.join()
        watcher.close()
        listener.close()
