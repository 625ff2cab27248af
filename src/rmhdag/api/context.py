"""What every route works with: the database, and how this installation is set up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
from fastapi import Depends
from fastapi.requests import HTTPConnection
from psycopg_pool import ConnectionPool

from rmhdag.api.rate_limits import RateLimit
from rmhdag.api.streams.hub import Hub
from rmhdag.orchestrator.callbacks.settings import CallbackSettings
from rmhdag.store.connection import connect, enter_schema

if TYPE_CHECKING:
    from rmhdag.api.oidc import OidcSettings, TokenVerifier

Conn = psycopg.Connection[Any]
# Whoever cannot have a connection by then is told to come back: a 503 within two seconds.
PATIENCE_SECONDS = 1.5


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """Values only; who reads them from where is not our business."""

    dsn: str
    schema_name: str = "dagapp"
    pooled: bool = False
    notify: bool = True
    connections: int = 8
    orphan_seconds: float = 10.0
    development: bool = False
    queues: frozenset[str] = frozenset()
    job_queue_name: str | None = None
    statement_seconds: float = 3.0
    max_body_bytes: int = 10 * 1024 * 1024
    body_seconds: float = 30.0
    submits_per_second: float = 2_000.0
    header_seconds: float = 10.0
    oidc: OidcSettings | None = None
    callbacks: CallbackSettings = field(default_factory=CallbackSettings)
    max_listeners: int = 1_000
    max_listeners_per_key: int = 100
    # Pages of other sites that may open WebSockets, as in `https://ops.example.org`; our own always may.
    origins: frozenset[str] = frozenset()


@dataclass
class Api:
    """One per process. The pool opens when the application starts and closes when it ends."""

    settings: ApiSettings
    pool: ConnectionPool[Conn] = field(init=False)
    submit_rate: RateLimit = field(init=False)
    tokens: TokenVerifier | None = field(init=False, default=None)
    streams: Hub = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.submit_rate = RateLimit(settings.submits_per_second)
        if settings.oidc is not None:
            from rmhdag.api.oidc import TokenVerifier

            self.tokens = TokenVerifier(settings.oidc)

        class Connection(psycopg.Connection[Any]):
            """A connection that notices a dead peer, in our schema."""

            @classmethod
            def connect(cls, conninfo: str = "", **given: Any) -> Any:
                conn = connect(
                    settings.dsn,
                    "rmhdag:api",
                    autocommit=True,
                    statement_timeout_seconds=settings.statement_seconds,
                    pooled=settings.pooled,
                )
                try:
                    enter_schema(conn, settings.schema_name, pooled=settings.pooled)
                except BaseException:
                    conn.close()
                    raise
                return conn

        self.pool = ConnectionPool(
            connection_class=Connection,
            min_size=1,
            max_size=settings.connections,
            timeout=PATIENCE_SECONDS,
            max_waiting=settings.connections * 32,
            check=ConnectionPool.check_connection,
            open=False,
            name="api",
        )
        self.streams = Hub(
            settings.dsn,
            settings.schema_name,
            pooled=settings.pooled,
            notify=settings.notify,
            max_listeners=settings.max_listeners,
            max_listeners_per_key=settings.max_listeners_per_key,
        )

    @contextmanager
    def connection(self) -> Iterator[Conn]:
        """In autocommit mode; `with conn.transaction()` where several statements belong together."""
        with self.pool.connection() as conn:
            yield conn


def get_api(connection: HTTPConnection) -> Api:
    found: Api = connection.app.state.api
    return found


async def _api(connection: HTTPConnection) -> Api:
    return get_api(connection)


ApiContext = Annotated[Api, Depends(_api)]
