"""Whether the schema of the database is up to date, for `db status` and `doctor`.

A comparison that found nothing to do is remembered in the data folder. As long as the program, the schema and the day
are the same, it is not repeated.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rmhdag.cli.server import data_folder
from rmhdag.cli.settings import Settings
from rmhdag.machine.private_files import write_private
from rmhdag.store.connection import Conn, connect
from rmhdag.store.schema_fingerprint import fingerprint

FILE = "schema-check"


class SchemaState(NamedTuple):
    """`steps` are those of a migration, `refusals` what it cannot do safely."""

    server_version: str
    steps: int = 0
    refusals: int = 0

    @property
    def is_up_to_date(self) -> bool:
        return not self.steps and not self.refusals


def examine_schema(url: str, settings: Settings) -> SchemaState:
    """`url` is that of the schema's owner."""
    with connect(url, "rmhdag:status", autocommit=True) as conn:
        (server_version,) = conn.execute("SELECT current_setting('server_version')").fetchone() or ("unknown",)
        if _remembered(settings) == fingerprint(conn, settings.schema_name):
            return SchemaState(server_version)
        from rmhdag.store import migration

        plan = migration.plan(url, settings.schema_name)
        if plan.is_empty:
            _remember(conn, settings)
        return SchemaState(server_version, len(plan.steps), len(plan.refusals))


def note_migrated(url: str, settings: Settings) -> None:
    """The schema has just been migrated."""
    with connect(url, "rmhdag:status", autocommit=True) as conn:
        _remember(conn, settings)


def _file(settings: Settings) -> Path:
    return data_folder(settings) / FILE


def _remembered(settings: Settings) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return _file(settings).read_text(encoding="ascii")
    return None


def _remember(conn: Conn, settings: Settings) -> None:
    """Without a data folder that we can write, nothing is remembered."""
    with suppress(OSError):
        write_private(_file(settings), fingerprint(conn, settings.schema_name))
