"""A process works only with a schema that its version knows: checked at its start, and again while it runs.

A database may be migrated under running processes. Those that the new schema shuts out stop by themselves, instead of
writing rows that newer processes misread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from rmhdag.cli.database import open_connection
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.seeds import write_seeds
from rmhdag.cli.settings import Settings
from rmhdag.observability.logs import get_logger
from rmhdag.store.connection import Conn
from rmhdag.store.schema_version import SchemaMismatch, check_version

log = get_logger(__name__)
# Heartbeats between two looks: with the default settings, 10 s.
BEATS = 5


def require_version(conn: Conn, settings: Settings, name: str) -> None:
    try:
        check_version(conn, settings.schema_name)
    except SchemaMismatch as error:
        raise refusal(error, name) from error


def prepare_database(conn: Conn, settings: Settings, name: str) -> None:
    """Check the version of the schema, and write the rows that come from the settings."""
    require_version(conn, settings, name)
    write_seeds(conn, settings)


def refusal(error: SchemaMismatch, name: str) -> CommandFailed:
    remedy = f"{error.remedy[0].upper()}{error.remedy[1:]}; `rmhdag up` migrates its own database by itself."
    return CommandFailed(f"{name}: {error.problem}", remedy=remedy, code=ExitCode.CONFLICT)


@contextmanager
def version_watched(dsn: str, settings: Settings, name: str, stop: Callable[[], None]) -> Iterator[None]:
    """Look every few seconds, on a connection that is not kept; `stop` ends the process in its usual, orderly way.

    The command fails after the block if that happened. A database that cannot be reached is not a mismatch.
    """
    over = threading.Event()
    pause_seconds = BEATS * settings.heartbeat_seconds
    mismatches: list[SchemaMismatch] = []

    def watch() -> None:
        while not over.is_set():
            try:
                with open_connection(dsn, settings) as conn:
                    check_version(conn, settings.schema_name)
            except SchemaMismatch as error:
                mismatches.append(error)
                log.error("schema_version_mismatch", error=str(error))
                stop()
                return
            except psycopg.Error as error:
                log.debug("schema_version_unknown", error=str(error))
            over.wait(pause_seconds)

    thread = threading.Thread(target=watch, name="schema-version", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(pause_seconds)
    if mismatches:
        raise refusal(mismatches[0], name)
