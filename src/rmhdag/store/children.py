"""The children of a fan-out, page by page in the order of their index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


class Child(NamedTuple):
    node_id: str
    fan_out_index: int
    status: str
    error_message: str | None
    output: Any


def read_children(conn: psycopg.Connection[Any], job_id: str, fan_out_id: str, page: int) -> Iterator[Child]:
    start = 0
    while True:
        given = {"job_id": job_id, "fan_out_id": fan_out_id, "start": start, "stop": start + page}
        rows = conn.execute(SQL["read_children"], given, prepare=True).fetchall()
        yield from (Child(*row) for row in rows)
        if len(rows) < page:
            return
        start += page
