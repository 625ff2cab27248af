"""The roles that processes use on the embedded server. The superuser only creates and migrates databases.

`rmhdag_app` works with the platform's tables. `rmhdag_geo` owns the data (PostGIS) and sees nothing of the platform's.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

APPLICATION_ROLE = "rmhdag_app"
PASSWORD_FILE = "password.app"
DATA_ROLE = "rmhdag_geo"
DATA_PASSWORD_FILE = "password.geo"
DATA_SCHEMAS = ("geo", "geo_work")


def ensure_application_role(conn: psycopg.Connection[Any], folder: Path) -> str:
    """Create the role with its own password, or reset it to the one in the folder; returns the password.

    Each start corrects roles from older versions and manual changes.
    """
    return _ensure_role(conn, APPLICATION_ROLE, folder / PASSWORD_FILE)


def ensure_data_role(conn: psycopg.Connection[Any], folder: Path) -> str:
    """The same for the role of the data, with PostGIS and its schemas in the database of the connection."""
    from psycopg import sql

    password = _ensure_role(conn, DATA_ROLE, folder / DATA_PASSWORD_FILE)
    role = sql.Identifier(DATA_ROLE)
    conn.execute("CREATE EXTENSION IF NOT EXISTS postgis")
    # Namespaces have schemas of their own, which the role makes.
    database = sql.Identifier(conn.info.dbname)
    conn.execute(sql.SQL("GRANT CREATE, TEMPORARY ON DATABASE {} TO {}").format(database, role))
    for schema in DATA_SCHEMAS:
        conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(sql.Identifier(schema), role))
    return password


def _ensure_role(conn: psycopg.Connection[Any], role: str, password_file: Path) -> str:
    from psycopg import sql

    password = _read_or_make(password_file)
    name = sql.Identifier(role)
    if conn.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone() is None:
        conn.execute(sql.SQL("CREATE ROLE {}").format(name))
    # Hashed here: the statement may appear in the server's log.
    scrambled = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    rights = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD {}")
    conn.execute(sql.SQL("ALTER ROLE {} ").format(name) + rights.format(sql.Literal(scrambled)))
    return password


def read_password(folder: Path, name: str = PASSWORD_FILE) -> str | None:
    with suppress(FileNotFoundError):
        return (folder / name).read_text(encoding="ascii").strip()
    return None


def _read_or_make(path: Path) -> str:
    stored_password = read_password(path.parent, path.name)
    if stored_password:
        return stored_password
    password = secrets.token_urlsafe(24)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(password + "\n")
    return password
