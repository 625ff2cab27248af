"""The data database as one namespace sees it: two schemas, and connections to them.

Public tables are in `geo`: what services show. Everything that nobody is to see yet, or any more, is in `geo_work`:
tables that are being loaded, revisions before their approval, and earlier revisions. Other namespaces than `default`
have their own pair of schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import psycopg

from rmhdag.models.namespaces import home_of

CONNECT_SECONDS = 10
PUBLIC, WORK = "geo", "geo_work"
# The server ends what a dead process or machine of ours has left open, and with it the locks.
SESSION = {
    "search_path": "public",
    "timezone": "UTC",
    "client_min_messages": "warning",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}

Conn = psycopg.Connection[tuple[Any, ...]]


class DataDatabaseError(Exception):
    """The data database cannot be used as it is; the message says what to do."""


class DataDatabase:
    """What handlers get as `ctx.postgis`."""

    def __init__(self, dsn: str, namespace: str) -> None:
        self._dsn = dsn
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<DataDatabase {self.schema}>"

    @cached_property
    def schema(self) -> str:
        """The schema of public tables."""
        return schemas_of(self.namespace)[0]

    @cached_property
    def work_schema(self) -> str:
        """The schema of tables that are not public."""
        return schemas_of(self.namespace)[1]

    @contextmanager
    def connect(self) -> Iterator[Conn]:
        """A connection in autocommit mode, with the schemas made. Closed at the end of the block."""
        from rmhdag.postgis.layout import ensure_layout

        with open_connection(self._dsn, f"rmhdag:{self.namespace}") as conn:
            ensure_layout(conn, self.schema, self.work_schema)
            yield conn


def schemas_of(namespace: str) -> tuple[str, str]:
    """Names of schemas have at most 63 characters; `home_of` has fewer than 62, and no two namespaces share one."""
    home = home_of(namespace)
    if not home:
        return PUBLIC, WORK
    plain = home.removeprefix("namespace-")
    return f"{PUBLIC}-{plain}"[:63], f"{WORK}-{plain}"[:63]


@contextmanager
def open_connection(dsn: str, name: str) -> Iterator[Conn]:
    """Ours alone: the search path names no table of anybody."""
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    with psycopg.connect(
        dsn,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        application_name=name[:63],
        options=options,
        prepare_threshold=None,
    ) as conn:
        yield conn
