"""The children of a fan-out, page by page in the order of their index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class Child(NamedTuple):
    node_id: str
    fan_out_index: int
    status: str
    error_message: str | None
    output: Any


def read_children(conn: Conn, job_id: str, fan_out_id: str, page: int) -> Iterator[Child]:
    start = 0
    while True:
        parameters = {"job_id": job_id, "fan_out_id": fan_out_id, "start": start, "stop": start + page}
        rows = conn.execute(SQL["read_children"], parameters, prepare=True).fetchall()
        yield from (Child(*row) for row in rows)
        if len(rows) < page:
            return
        start += page
