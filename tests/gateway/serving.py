"""A gateway on loopback for a test: with its own role, in front of a real API, on the database of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from psycopg.conninfo import make_conninfo

from rmhdag.cli.run_api import address_of, listen
from rmhdag.gateway.application import Gateway
from rmhdag.gateway.configuration import GatewayConfiguration
from rmhdag.gateway.server import GatewayServer
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.roles import make_roles, role_names
from tests.api.serving import NO_TLS

ROLES = role_names()
PASSWORD = "only-for-tests"


def gateway_dsn(dsn: str) -> str:
    """The same database as the gateway's role sees it."""
    with connect(dsn, "owner", autocommit=True) as conn:
        make_roles(conn, "dagapp", ROLES, actor="test")
        conn.execute(f"ALTER ROLE {ROLES.gateway} PASSWORD '{PASSWORD}'".encode())
    return make_conninfo(dsn, user=ROLES.gateway, password=PASSWORD)


def make_key(dsn: str, *scopes: Scope, name: str, namespace: str = "default", days: float | None = None) -> str:
    with connect(dsn, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        return api_keys.create_key(conn, name, scopes, created_by="test", namespace=namespace, days=days).key


class Served:
    def __init__(self, url: str, dsn: str, gateway: Gateway, server: GatewayServer) -> None:
        self.url = url
        self.dsn = dsn
        self.gateway = gateway
        self.server = server
        self._clients: list[httpx.Client] = []

    def client(self, *scopes: Scope, name: str = "acme", namespace: str = "default", **more: Any) -> httpx.Client:
        key = make_key(self.dsn, *(scopes or (Scope.B2B,)), name=name, namespace=namespace)
        return self.with_key(key, **more)

    def key(self, *scopes: Scope, name: str) -> str:
        return make_key(self.dsn, *scopes, name=name)

    def with_key(self, key: str | None, **more: Any) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        made = httpx.Client(
            base_url=self.url,
            timeout=60,
            trust_env=False,
            verify=NO_TLS,
            headers={**headers, **more.pop("headers", {})},
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()


@contextmanager
def served_gateway(dsn: str, api_url: str, **settings: Any) -> Iterator[Served]:
    """`dsn` is the owner's."""
    given = {
        "gateway_database_url": gateway_dsn(dsn),
        "gateway_key": make_key(dsn, Scope.GATEWAY, name="gateway"),
        "orchestrator_url": api_url,
        "client_quotas": "requests_per_second=100000, requests_per_hour=1000000",
        **settings,
    }
    gateway = Gateway(GatewayConfiguration.model_validate(given))
    server = GatewayServer(gateway)
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    made = Served(address_of(listener), dsn, gateway, server)
    try:
        yield made
    finally:
        made.close()
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()
