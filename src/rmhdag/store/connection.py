"""Connections that notice a dead peer within seconds and never hold a lock for long.

Behind a transaction pooler a session belongs to nobody: nothing can be set on it, so the role has to bring what the
others set here (docs/architecture/pooler.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict

# What queries run on, whatever its rows are.
Conn = psycopg.Connection[Any]

# Until a server that does not answer counts as away.
CONNECT_SECONDS = 5
# A black hole is noticed after 2 + 3 × 1 s; by default a reply is awaited for ever.
_KEEPALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}


class NoAnswerError(psycopg.OperationalError):
    """The server keeps the connection and says nothing; whether it did what it was asked for is not known."""


class ImpatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """Does not wait for ever for a server that is stopped and cannot end its statements itself."""

    answer_seconds: float | None = None
    used_at = 0.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        if timeout is not None or self.answer_seconds is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_seconds)
        except errors._WaitTimeout:
            # An answer that comes now would be taken for that of the next statement.
            self.close()
            raise NoAnswerError(f"no answer within {self.answer_seconds} s") from None

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        before, self.answer_seconds = self.answer_seconds, seconds
        try:
            yield
        finally:
            self.answer_seconds = before


class SearchPathError(psycopg.OperationalError):
    """Behind a pooler only the role can say which schema is meant, and it does not."""


def connect(
    dsn: str,
    application_name: str,
    *,
    autocommit: bool = False,
    statement_timeout_seconds: float = 10,
    lock_timeout_seconds: float = 2,
    idle_in_transaction_timeout_seconds: float = 5,
    reads_whole_tables: bool = True,
    pooled: bool = False,
    answer_seconds: float | None = None,
) -> ImpatientConnection:
    """Open one connection. A time-out of 0 means none; behind a pooler they are the role's.

    `answer_seconds` is counted here, for each statement by itself, and should be longer than the server's own limit.

    Without `reads_whole_tables` the planner takes an index wherever there is one: for connections that live long and
    whose plans, made while a table was small, must still be right when it is large. Behind a pooler nothing is planned
    for longer than one use.
    """
    limits = {
        "statement_timeout": statement_timeout_seconds,
        "lock_timeout": lock_timeout_seconds,
        "idle_in_transaction_session_timeout": idle_in_transaction_timeout_seconds,
    }
    own_options = str(conninfo_to_dict(dsn).get("options") or "")
    ours = [f"-c {name}={round(seconds * 1000)}" for name, seconds in limits.items()]
    # Before PostgreSQL 18, a table that is read although that is switched off seems to cost 10^10. A server with LLVM
    # therefore compiled small queries for 100 ms each: an idle orchestrator took 15 % of a core.
    ours.append("-c jit=off")
    if not reads_whole_tables:
        ours.append("-c enable_seqscan=off")
    conn = ImpatientConnection.connect(
        dsn,
        autocommit=autocommit,
        application_name=application_name,
        connect_timeout=CONNECT_SECONDS,
        options=" ".join([own_options, *([] if pooled else ours)]).strip() or None,
        **_KEEPALIVE,
    )
    conn.answer_seconds = answer_seconds
    if pooled:
        conn.prepare_threshold = None  # a statement prepared on one server connection is unknown on the next
    return conn


def enter_schema(conn: Conn, schema: str, *, pooled: bool = False) -> None:
    """Queries name tables without their schema: from here on this one is meant."""
    if not pooled:
        conn.execute("SELECT set_config('search_path', quote_ident(%s), false)", [schema])
        return
    row = conn.execute("SELECT current_schema(), current_user, current_database()").fetchone()
    assert row is not None
    if row[0] != schema:
        statement = sql.SQL("ALTER ROLE {} IN DATABASE {} SET search_path = {}").format(
            sql.Identifier(row[1]), sql.Identifier(row[2]), sql.Identifier(schema)
        )
        raise SearchPathError(
            f"behind a pooler the role must bring the schema, and it has {row[0]!r} instead of {schema!r}: "
            f"run `{statement.as_string()}` as its owner and let the pooler reconnect"
        )
