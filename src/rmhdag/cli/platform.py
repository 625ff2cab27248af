"""The platform's database as one command uses it: connected, in its schema, with errors as sentences."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.server import explained, opened
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.store import views
from rmhdag.store.connection import SearchPathError, connect, enter_schema

Conn = psycopg.Connection[Any]
ALL_HEX = frozenset("0123456789abcdef")
SHORTEST_START = 8


@dataclass(slots=True)
class Platform:
    """`conn` is in autocommit mode."""

    conn: Conn
    dsn: str
    name: str
    settings: Settings

    def orchestrators_alive(self) -> int:
        alive = self.settings.orphan_seconds
        return sum(line.silent_seconds < alive and not line.stopping for line in views.orchestrators(self.conn))

    def reconnect(self) -> None:
        self.conn.close()
        self.conn = open_connection(self.dsn, self.settings)


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
def connected(database_url: str | None = None, schema: str | None = None) -> Iterator[Platform]:
    """An embedded server that is not running is started for the command, as `rmhdag db` does it."""
    settings = load_settings({"database_url": database_url, "schema_name": schema}).settings
    with opened(settings) as (dsn, name), explained(settings), migrated(settings, name):
        platform = Platform(open_connection(dsn, settings), dsn, name, settings)
        try:
            yield platform
        finally:
            platform.conn.close()


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


def who(given: str | None) -> str:
    """In whose name: the given one, or the user's."""
    if given is not None:
        if not 0 < len(given) <= 64 or "\x00" in given:
            raise CommandFailed("a name has 1 to 64 characters", code=ExitCode.USAGE)
        return given
    try:
        return getpass.getuser()[:64]
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def find_job(conn: Conn, namespace: str, text: str) -> str:
    """The full id of the job that is meant."""
    start = text.strip().lower().replace("-", "")
    if len(start) >= SHORTEST_START and ALL_HEX.issuperset(start):
        found = views.find_jobs(conn, namespace, start)
        if len(found) == 1:
            return found[0]
        if found:
            raise CommandFailed(
                f"several jobs begin with {start}: {', '.join(found)}",
                remedy="Give more of the id.",
                code=ExitCode.CONFLICT,
            )
    raise CommandFailed(
        f"there is no job {text!r}",
        remedy="`rmhdag jobs` lists them; the first 8 characters of an id are enough if no other begins so.",
        code=ExitCode.NOT_FOUND,
    )
