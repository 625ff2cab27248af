"""A real server on loopback for a test: the application under uvicorn, and clients with keys."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from rmhdag.api.application import build
from rmhdag.api.context import Api, ApiSettings
from rmhdag.api.server import ApiServer
from rmhdag.cli.run_api import address_of, listen
from rmhdag.models.quotas import Quotas
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema

# Trusts nobody, and costs nothing: certificates of authorities take longer to read than most tests take.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Served:
    """`client(...)` makes a key with these scopes and a client that sends it."""

    def __init__(self, url: str, dsn: str) -> None:
        self.url = url
        self.dsn = dsn
        self._clients: list[httpx.Client] = []

    def key(self, *scopes: Scope, namespace: str = "default", name: str = "tester", days: float | None = None) -> str:
        with connect(self.dsn, "test", autocommit=True) as conn:
            enter_schema(conn, "dagapp")
            return api_keys.create_key(conn, name, scopes, created_by="test", namespace=namespace, days=days).key

    def client(self, *scopes: Scope, namespace: str = "default", name: str = "tester") -> httpx.Client:
        key = self.key(*scopes, namespace=namespace, name=name)
        return self.anonymous(headers={"Authorization": f"Bearer {key}"})

    def anonymous(self, **given: Any) -> httpx.Client:
        made = httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=NO_TLS, **given)
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()


class ServedHere(Served):
    """By a thread of this process, so that a test can look inside."""

    def __init__(self, url: str, dsn: str, server: ApiServer, api: Api) -> None:
        super().__init__(url, dsn)
        self.hub = api.streams
        self.readers = api.readers
        self.checks = api.checks
        self.pool = api.pool
        self.body_room = api.body_room
        self._server = server

    def stop(self) -> None:
        """As SIGTERM does."""
        self._server.should_exit = True

    def open_connections(self) -> int:
        """Of clients, and requests that the server has not finished."""
        return len(self._server.server_state.connections) + len(self._server.server_state.tasks)

    def waiting_to_be_read(self) -> int:
        """Large bodies for which no reader has time."""
        return self.readers._work_queue.qsize()

    def peers(self) -> list[socket.socket]:
        """The server's ends of its connections."""
        return [connection.transport.get_extra_info("socket") for connection in self._server.server_state.connections]


@contextmanager
def served(
    dsn: str,
    *,
    queues: Sequence[str] = ("light", "heavy"),
    listener: socket.socket | None = None,
    **settings: Any,
) -> Iterator[ServedHere]:
    listener = listener or listen("127.0.0.1", 0)
    # On a machine that does other things a connection may take its time. Tests call as fast as they can, for several
    # namespaces at once: the share of one is for the tests of shares.
    whole = Quotas().with_overrides({"processor_share": 10_000})
    patient = {"patience_seconds": 30.0, "requests_per_second": 1e6, "quotas": whole, **settings}
    given = ApiSettings(dsn=dsn, queues=frozenset(queues), job_queue_name="jobs", **patient)
    app = build(given)
    server = ApiServer(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    made = ServedHere(address_of(listener), dsn, server, app.state.api)
    try:
        yield made
    finally:
        made.close()
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
