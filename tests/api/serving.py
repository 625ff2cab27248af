"""A real server on loopback for a test: the application under uvicorn, and clients with keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from rmhdag.api.application import build
from rmhdag.api.context import ApiSettings
from rmhdag.api.server import configure
from rmhdag.cli.run_api import address_of, listen
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema


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
        made = httpx.Client(base_url=self.url, timeout=30, trust_env=False, **given)
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def served(dsn: str, *, queues: Sequence[str] = ("light", "heavy"), **settings: Any) -> Iterator[Served]:
    listener = listen("127.0.0.1", 0)
    given = ApiSettings(dsn=dsn, queues=frozenset(queues), job_queue_name="jobs", **settings)
    server = uvicorn.Server(configure(build(given)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    made = Served(address_of(listener), dsn)
    try:
        yield made
    finally:
        made.close()
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
