"""What one request asks of the database, counted on the wire."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.api.serving import ServedHere

SENT = frozenset({"Execute", "Query"})


def count_statements(api: ServedHere, request: Callable[[], Any]) -> int:
    """The server has one connection, and libpq writes down what goes over it. BEGIN and COMMIT count like others."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        with path.open("wb") as trace:
            with api.pool.connection() as conn:
                conn.pgconn.trace(trace.fileno())
            request()
            with api.pool.connection() as conn:
                conn.pgconn.untrace()
        messages = [line.split("\t") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    kinds = [(message[1], message[3]) for message in messages if len(message) > 3]
    # An empty query is how the pool looks whether a connection that has rested still lives.
    rests = kinds.count(("B", "EmptyQueryResponse"))
    return sum(side == "F" and kind in SENT for side, kind in kinds) - rests


def fewest_statements(api: ServedHere, request: Callable[[], Any]) -> int:
    """Of a request that was sent before. Now and then one also reads quotas, or notes that a key was used."""
    request()
    return min(count_statements(api, request) for _ in range(3))
