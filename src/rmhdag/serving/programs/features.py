"""OGC API Features and vector tiles by tipg: the tables of one schema, read-only.

Runs in the services' environment, under uvicorn, and imports nothing of rmhdag.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import cql2
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from tipg.collections import register_collection_catalog
from tipg.database import close_db_connection, connect_to_db
from tipg.errors import DEFAULT_STATUS_CODES, add_exception_handlers
from tipg.extensions.viewer import viewerExtension
from tipg.factory import Endpoints
from tipg.openapi import _update_openapi
from tipg.settings import DatabaseSettings, PostgresSettings

SCHEMA = os.environ["RMHDAG_FEATURES_SCHEMA"]
LOOK_SECONDS = 1.0
# What is listed, if the schema has such a table: neither earlier revisions nor tables that are being loaded.
LISTED = f"SELECT table_name FROM {SCHEMA}.table_catalog"
HAS_LIST = "SELECT to_regclass($1) IS NOT NULL"
# Changes with every table that is made, dropped, renamed or replaced.
STATE = """
    SELECT md5(string_agg(concat(c.oid, c.relname, c.relfilenode), ',' ORDER BY c.oid))
    FROM pg_class AS c
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'v', 'm', 'f', 'p')"""
# OGC API Features wants 400 for a parameter that is not valid; tipg has 500 for some.
STATUS_CODES = {
    ValueError: 400,
    asyncpg.DataError: 400,
    asyncpg.SyntaxOrAccessError: 400,
    asyncpg.UndefinedTableError: 404,
    asyncpg.QueryCanceledError: 504,
}
READ_ONLY = "SET default_transaction_read_only = on"


async def make_read_only(conn: asyncpg.Connection) -> None:
    """For each request. Not for the connection as a whole: tipg first makes temporary functions in it."""
    await conn.execute(READ_ONLY)


class Tables:
    """The collections follow the tables: they are looked at before a request is answered, once a second at most."""

    def __init__(self) -> None:
        self._state: object = None
        self._looked_at = 0.0

    async def refresh(self, app: FastAPI) -> None:
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        async with app.state.pool.acquire() as conn:
            listed = None
            if await conn.fetchval(HAS_LIST, f"{SCHEMA}.table_catalog"):
                listed = sorted(f"{SCHEMA}.{row[0]}" for row in await conn.fetch(LISTED))
            state = (await conn.fetchval(STATE, SCHEMA), listed)
        if state != self._state:
            # No function is a collection.
            await register_collection_catalog(app, DatabaseSettings(schemas=[SCHEMA], tables=listed, functions=[]))
            self._state = state


tables = Tables()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    await connect_to_db(
        app,
        schemas=[SCHEMA],
        settings=PostgresSettings(database_url=os.environ["DATABASE_URL"], db_max_conn_size=8),
        setup=make_read_only,
        server_settings={
            "application_name": "rmhdag features",
            "search_path": "public",
            "statement_timeout": os.environ["RMHDAG_STATEMENT_MS"],
        },
    )
    await tables.refresh(app)
    yield
    await close_db_connection(app)


app = FastAPI(
    title="rmhdag: OGC API Features",
    openapi_url="/api",
    docs_url="/api.html",
    lifespan=lifespan,
)
_update_openapi(app)
app.include_router(Endpoints(title="rmhdag", extensions=[viewerExtension()]).router)
add_exception_handlers(app, DEFAULT_STATUS_CODES | STATUS_CODES)


@app.middleware("http")
async def follow_tables(request: Request, call_next: Any) -> Any:
    fault = filter_fault(request)
    if fault is not None:
        return JSONResponse({"detail": fault}, 400)
    await tables.refresh(request.app)
    return await call_next(request)


def filter_fault(request: Request) -> str | None:
    """Looked for here: what tipg gets for it is an exception without a name, and its answer 500."""
    text = request.query_params.get("filter")
    if text is None:
        return None
    parse = cql2.parse_json if request.query_params.get("filter-lang") == "cql2-json" else cql2.parse_text
    try:
        parse(text)
    except (cql2.ParseError, cql2.ValidationError, ValueError) as error:
        return f"the filter is not valid: {error}"
    return None


@app.get("/healthz", include_in_schema=False)
async def healthz(request: Request) -> dict[str, int]:
    return {"collections": len(request.app.state.collection_catalog["collections"])}
