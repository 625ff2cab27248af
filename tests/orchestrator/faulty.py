"""A real connection on which something happens, once, right before a statement of one's choice is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from rmhdag.store.connection import ImpatientConnection
from tests.orchestrator.platform import Platform, Seat


class FaultyConnection(ImpatientConnection):
    action: Callable[[], Any] | None = None
    statements_left = 0
    words = b""

    def fail_at(self, statement: int, fault: Exception) -> None:
        """Raise at the statement of this number, counted from now on."""

        def fail() -> None:
            raise fault.with_traceback(None)

        self.action, self.statements_left, self.words = fail, statement, b""

    def break_at(self, statement: int) -> None:
        """Lose the line to the server at the statement of this number, counted from now on."""
        self.action, self.statements_left, self.words = self.close, statement, b""

    def before(self, words: bytes, action: Callable[[], Any]) -> None:
        """Act before the next statement with these words in it."""
        self.action, self.statements_left, self.words = action, 1, words

    def execute(self, query: Any, *given: Any, **more: Any) -> Any:
        text = query if isinstance(query, bytes) else str(query).encode()
        if self.action is not None and self.words in text:
            self.statements_left -= 1
            if self.statements_left == 0:
                action, self.action = self.action, None
                action()
        return super().execute(query, *given, **more)


def open_faulty(dsn: str) -> FaultyConnection:
    conn = FaultyConnection.connect(dsn, autocommit=True)
    conn.execute("SET search_path TO dagapp")
    return conn


@contextmanager
def with_faults(platform: Platform, seat: Seat) -> Iterator[FaultyConnection]:
    with closing(open_faulty(platform.dsn)) as conn:
        seat.advance.use(conn)
        yield conn
    seat.advance.use(seat.conn)
