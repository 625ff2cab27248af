"""The platform's database as a process of ours uses it: connected, in its schema, with errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.settings import Settings
from rmhdag.store.connection import CONNECT_SECONDS as CONNECT_SECONDS
from rmhdag.store.connection import Conn, SearchPathError, connect, enter_schema


def open_connection(dsn: str, settings: Settings) -> Conn:
    pooled = settings.database_pooled
    conn = connect(dsn, "rmhdag:cli", autocommit=True, statement_timeout_seconds=30, pooled=pooled)
    try:
        enter_schema(conn, settings.schema_name, pooled=pooled)
    except BaseException:
        conn.close()
        raise
    conn.prepare_threshold = None
    return conn


@contextmanager
def migrated(settings: Settings, name: str) -> Iterator[None]:
    """A schema that is missing or old, as a sentence."""
    try:
        yield
    except SearchPathError as error:
        raise CommandFailed(f"{name}: {error}", code=ExitCode.CONFLICT) from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedObject) as error:
        text = " ".join(str(error).partition("LINE")[0].split())
        raise CommandFailed(
            f"schema {settings.schema_name} in {name} does not exist or is not up to date: {text}",
            remedy="Run `rmhdag db migrate`; `rmhdag up` does it automatically.",
            code=ExitCode.CONFLICT,
        ) from error
