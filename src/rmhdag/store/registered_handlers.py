"""What workers have registered: their handlers, and the queues that they serve."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg.rows import class_row

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class RegisteredHandler(NamedTuple):
    """`is_shared`: all namespaces have it."""

    handler: str
    aliases: list[str]
    queue: str | None
    params_schema: dict[str, Any]
    output_schema: dict[str, Any]
    is_shared: bool


def registered_handlers(conn: Conn, namespace: str | None) -> list[RegisteredHandler]:
    """Those that all namespaces have, and those of this one."""
    with conn.cursor(row_factory=class_row(RegisteredHandler)) as cursor:
        return cursor.execute(SQL["registered_handlers"], {"namespace": namespace}).fetchall()


def served_queues(conn: Conn, namespace: str, alive_seconds: float) -> set[str]:
    """Those that live workers serve for the namespace."""
    parameters = {"namespace": namespace, "alive_seconds": alive_seconds}
    return {row[0] for row in conn.execute(SQL["served_queues"], parameters).fetchall()}
