"""The platform's database as a process of ours uses it: connected, in its schema, with errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.settings import Settings
from rmhdag.store.connection import SearchPathError, connect, enter_schema

Conn = psycopg.Connection[Any]


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
            f"schema {settings.schema_name} in {name} is not there or not up to date: {text}",
            remedy="`rmhdag db migrate` brings it there; `rmhdag up` does it by itself.",
            code=ExitCode.CONFLICT,
        ) from error
