"""The role that processes use on the embedded server. The superuser is only for making databases and migrating them."""

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


def ensure_application_role(conn: psycopg.Connection[Any], folder: Path) -> str:
    """Make the role with a password of its own, or give it back the one in the folder; returns the password.

    What a home of an older version made, or somebody changed, is put right at each start.
    """
    from psycopg import sql

    password = _read_or_make(folder / PASSWORD_FILE)
    name = sql.Identifier(APPLICATION_ROLE)
    if conn.execute("SELECT FROM pg_roles WHERE rolname = %s", [APPLICATION_ROLE]).fetchone() is None:
        conn.execute(sql.SQL("CREATE ROLE {}").format(name))
    # Hashed here: what is sent may stand in the server's log.
    scrambled = conn.pgconn.encrypt_password(password.encode(), APPLICATION_ROLE.encode(), b"scram-sha-256").decode()
    rights = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD {}")
    conn.execute(sql.SQL("ALTER ROLE {} ").format(name) + rights.format(sql.Literal(scrambled)))
    return password


def read_password(folder: Path) -> str | None:
    with suppress(FileNotFoundError):
        return (folder / PASSWORD_FILE).read_text(encoding="ascii").strip()
    return None


def _read_or_make(path: Path) -> str:
    found = read_password(path.parent)
    if found:
        return found
    password = secrets.token_urlsafe(24)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(password + "\n")
    return password
