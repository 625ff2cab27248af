"""How the database server is, and what waits in it: the numbers behind health and metrics."""

from __future__ import annotations

from typing import Any, NamedTuple

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class Server(NamedTuple):
    connections: int
    max_connections: int
    oldest_transaction_seconds: float
    idle_in_transaction_seconds: float
    blocked: int
    transaction_age: int
    is_durable: bool


class DeadRows(NamedTuple):
    table: str
    dead: int
    live: int


class Backlogs(NamedTuple):
    """Rows that wait, and how long the oldest has; counts end at 10,000.

    Places are public names of tables in PostGIS, and drops are tables that nobody needs any more; `dead_place` is the
    newest name that was given up, and why.
    """

    inbox_rows: int
    inbox_seconds: float | None
    outbox_rows: int
    outbox_seconds: float | None
    callback_rows: int
    callback_seconds: float | None
    service_rows: int
    service_seconds: float | None
    deletion_rows: int
    deletion_seconds: float | None
    place_rows: int
    place_seconds: float | None
    drop_rows: int
    drop_seconds: float | None
    dead_places: int
    dead_place: str | None
    unclaimed_seconds: float | None
    dead_letters: int


def server(conn: Conn) -> Server:
    return Server(*_one(conn, "server"))


def dead_rows(conn: Conn) -> DeadRows:
    return DeadRows(*_one(conn, "dead_rows"))


def backlogs(conn: Conn, namespace: str) -> Backlogs:
    return Backlogs(*_one(conn, "backlogs", namespace=namespace))


def schema_version(conn: Conn) -> tuple[int, int]:
    """(the schema's version, the oldest code that may work with it)."""
    row = _one(conn, "schema_version")
    return row[0], row[1]


def _one(conn: Conn, query: str, **parameters: Any) -> Any:
    row = conn.execute(SQL[query], parameters).fetchone()
    assert row is not None
    return row
