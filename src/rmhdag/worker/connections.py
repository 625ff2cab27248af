"""Connections of a worker: autocommit, the schema in the search path, JSON read by orjson."""

from __future__ import annotations

from typing import Any

import orjson
import psycopg
from psycopg.types.json import set_json_loads

from rmhdag.store.connection import connect, enter_schema
from rmhdag.worker.settings import WorkerSettings


def open_connection(
    settings: WorkerSettings, role: str, *, statement_timeout_seconds: float = 10
) -> psycopg.Connection[Any]:
    conn = connect(
        settings.dsn,
        f"rmhdag:worker:{role}",
        autocommit=True,
        statement_timeout_seconds=statement_timeout_seconds,
        reads_whole_tables=False,
        pooled=settings.pooled,
    )
    try:
        enter_schema(conn, settings.schema, pooled=settings.pooled)
        set_json_loads(orjson.loads, conn)
    except BaseException:
        conn.close()
        raise
    return conn
