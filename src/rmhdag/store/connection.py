"""Connections that notice a dead peer within seconds and never hold a lock for long."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

# A black hole is noticed after 2 + 3 × 1 s; by default a reply is awaited for ever.
_KEEPALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}


def connect(
    dsn: str,
    application_name: str,
    *,
    autocommit: bool = False,
    statement_timeout_seconds: float = 10,
    lock_timeout_seconds: float = 2,
    idle_in_transaction_timeout_seconds: float = 5,
    reads_whole_tables: bool = True,
) -> psycopg.Connection[tuple[Any, ...]]:
    """Open one connection. A time-out of 0 means none.

    Without `reads_whole_tables` the planner takes an index wherever there is one: for connections that live long and
    whose plans, made while a table was small, must still be right when it is large.
    """
    limits = {
        "statement_timeout": statement_timeout_seconds,
        "lock_timeout": lock_timeout_seconds,
        "idle_in_transaction_session_timeout": idle_in_transaction_timeout_seconds,
    }
    given = str(conninfo_to_dict(dsn).get("options") or "")
    chosen = [f"-c {name}={round(seconds * 1000)}" for name, seconds in limits.items()]
    if not reads_whole_tables:
        chosen.append("-c enable_seqscan=off")
    options = " ".join([given, *chosen]).strip()
    return psycopg.connect(
        dsn, autocommit=autocommit, application_name=application_name, connect_timeout=5, options=options, **_KEEPALIVE
    )
