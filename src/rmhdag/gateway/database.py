"""The gateway's connections: a role that can only read, a few of them, and an end to waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import orjson
from psycopg import AsyncConnection, Error, OperationalError
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from rmhdag.gateway.problems import unavailable

Row = dict[str, Any]

CONNECTIONS = 8
PATIENCE_SECONDS = 1.5
STATEMENT_SECONDS = 3.0
# By then the server has ended a statement by itself, unless it is stopped or unreachable.
ANSWER_SECONDS = 4.0
CONNECT_SECONDS = 3

log = logging.getLogger(__name__)


class Database:
    """Opened by the first read, in the event loop that serves: a function's host runs no start-up of ours."""

    def __init__(self, dsn: str, schema: str, *, pooled: bool = False) -> None:
        self.schema = schema
        self._dsn = dsn
        self._pooled = pooled
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] | None = None
        self._opening = asyncio.Lock()

    async def read(self, query: str, parameters: Mapping[str, Any]) -> list[Row]:
        """One statement. Raises the 503 that the caller gets if the database does not answer."""
        for attempt in (1, 2):
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._read(query, parameters)
            except (OperationalError, PoolTimeout, PoolClosed, TooManyRequests, TimeoutError) as error:
                log.warning("database_unavailable: %s, attempt %d", type(error).__name__, attempt)
                if attempt == 2 or not isinstance(error, OperationalError) or self._pool is None:
                    raise unavailable() from None
                # A connection that broke while nobody used it: the others may have broken too.
                await self._check()
            except Error as error:
                log.error("database_refused: %s", type(error).__name__, exc_info=error)
                raise unavailable() from None
        raise AssertionError("unreachable")

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def _read(self, query: str, parameters: Mapping[str, Any]) -> list[Row]:
        pool = self._pool or await self._open()
        async with pool.connection() as conn:
            cursor = await conn.execute(query.encode(), parameters)
            return await cursor.fetchall()

    async def _check(self) -> None:
        if self._pool is not None:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._pool.check()
            except (OperationalError, PoolClosed, TimeoutError):
                pass

    async def _open(self) -> AsyncConnectionPool[AsyncConnection[Row]]:
        async with self._opening:
            if self._pool is None:
                limits = {"statement_timeout": f"{STATEMENT_SECONDS * 1000:.0f}", "default_transaction_read_only": "on"}
                settings = " ".join(f"-c {name}={value}" for name, value in {**limits, "jit": "off"}.items())
                pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
                    self._dsn,
                    kwargs={
                        "autocommit": True,
                        "row_factory": dict_row,
                        "application_name": "rmhdag:gateway",
                        "connect_timeout": CONNECT_SECONDS,
                        # A pooler between us and the database refuses what it does not know.
                        **({"prepare_threshold": None} if self._pooled else {"options": settings}),
                    },
                    min_size=0,
                    max_size=CONNECTIONS,
                    timeout=PATIENCE_SECONDS,
                    max_waiting=CONNECTIONS * 64,
                    reconnect_timeout=5,
                    configure=_configure,
                    open=False,
                )
                await pool.open()
                self._pool = pool
            return self._pool


async def _configure(conn: AsyncConnection[Any]) -> None:
    set_json_loads(orjson.loads, conn)
