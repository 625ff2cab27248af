"""Which programs may work with a database: those that know its schema, and that its schema knows."""

from __future__ import annotations

from psycopg import errors, sql

from rmhdag.models.registry import SchemaMeta
from rmhdag.models.rows import SCHEMA_VERSION
from rmhdag.store.connection import Conn


class SchemaMismatch(Exception):
    """This program must not work with the database as it is: `problem` says why, `remedy` what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem = problem
        self.remedy = remedy


def check_version(conn: Conn, schema: str, *, code_version: int = SCHEMA_VERSION) -> None:
    """Raise SchemaMismatch unless a program of this version may work with the database."""
    try:
        meta = _recorded(conn, schema)
    except errors.InsufficientPrivilege:
        raise SchemaMismatch(
            f"role {conn.info.user} has no rights in schema {schema}",
            "run `rmhdag db migrate` and then `rmhdag db roles`, as the owner of the schema",
        ) from None
    if meta is None:
        raise SchemaMismatch(f"schema {schema} is not set up in this database", "run `rmhdag db migrate`")
    version, oldest = meta
    if version < code_version:
        raise SchemaMismatch(
            f"schema {schema} has version {version}, this program needs {code_version}", "run `rmhdag db migrate`"
        )
    if oldest > code_version:
        raise SchemaMismatch(
            f"schema {schema} takes programs of version {oldest} or newer, this one is {code_version}", "update rmhdag"
        )


def _recorded(conn: Conn, schema: str) -> tuple[int, int] | None:
    table = sql.Identifier(schema, SchemaMeta.table.name)
    row = conn.execute("SELECT to_regclass(%s)", [table.as_string()]).fetchone()
    if not row or row[0] is None:
        return None
    query = sql.SQL("SELECT schema_version, oldest_code_version FROM {}").format(table)
    return conn.execute(query).fetchone()
