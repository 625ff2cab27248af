"""Connections of a worker: autocommit, the schema in the search path, JSON read by orjson."""

from __future__ import annotations

from typing import Any

import orjson
import psycopg
from psycopg import sql
from psycopg.types.json import set_json_loads

from rmhdag.store.connection import connect
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
    )
    try:
        conn.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(settings.schema)))
        set_json_loads(orjson.loads, conn)
        conn.prepare_threshold = None if settings.pooled else 5
    except BaseException:
        conn.close()
        raise
    return conn
