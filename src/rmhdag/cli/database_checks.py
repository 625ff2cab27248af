"""The checks of `rmhdag doctor` that need a database: found, reached, new enough, durable, up to date, same time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg

from rmhdag.cli.checks import Finding, judge
from rmhdag.cli.database import open_connection
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.schema_check import examine_schema
from rmhdag.cli.server import choose_server, explained, name_server
from rmhdag.cli.settings import Settings
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.store.connection import Conn, connect
from rmhdag.store.vault import SecretUnreadable, Vault

MIN_SERVER_VERSION = 14
MAX_SKEW_SECONDS = 1.0
MIN_CONNECTIONS = 50


def check_database(settings: Settings) -> Iterator[Finding]:
    try:
        server = choose_server(settings)
    except CommandFailed as failure:
        yield Finding("postgresql", "failed", failure.message, "found", failure.remedy or "Set RMHDAG_DATABASE_URL.")
        return
    yield Finding("postgresql", "ok", name_source(server))
    if isinstance(server, EmbeddedPostgres) and not server.attach() and not (server.folder / "data").exists():
        yield Finding(
            "connection", "warning", "not made yet", "", "`rmhdag db migrate` creates the embedded PostgreSQL."
        )
        return
    with ExitStack() as stack:
        try:
            with explained(settings):
                stack.enter_context(server)
                connection = stack.enter_context(connect(server.app_dsn(), "rmhdag:doctor", autocommit=True))
        except CommandFailed as failure:
            yield Finding("connection", "failed", failure.message, "an answer", failure.remedy or "")
            return
        yield Finding("connection", "ok", name_server(server))
        yield check_server_version(connection)
        yield check_fsync(connection)
        yield check_connections(connection)
        yield check_clock(connection)
        yield check_role(connection)
        yield check_secrets(settings, server.app_dsn())
        yield check_schema(server.owner_dsn(), settings)


def name_source(server: object) -> str:
    if not isinstance(server, EmbeddedPostgres):
        return "named by RMHDAG_DATABASE_URL"
    assert server.binaries is not None
    return f"embedded {server.binaries.version} ({server.binaries.source})"


def ask(connection: Conn, setting: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
    return str(row[0]) if row else ""


def check_server_version(connection: Conn) -> Finding:
    number = int(ask(connection, "server_version_num"))
    return Finding(
        "server version",
        judge(number // 10_000 >= MIN_SERVER_VERSION),
        ask(connection, "server_version"),
        f"{MIN_SERVER_VERSION} or newer",
        "Upgrade the server, or unset RMHDAG_DATABASE_URL to use the embedded one.",
    )


def check_fsync(connection: Conn) -> Finding:
    values = {name: ask(connection, name) for name in ("fsync", "full_page_writes")}
    return Finding(
        "durability",
        judge(set(values.values()) == {"on"}),
        ", ".join(f"{name} {value}" for name, value in values.items()),
        "on",
        "Without them a crash loses or damages jobs: ALTER SYSTEM SET fsync = on, and reload.",
    )


def check_connections(connection: Conn) -> Finding:
    limit = int(ask(connection, "max_connections"))
    return Finding(
        "connections",
        judge(limit >= MIN_CONNECTIONS, "warning"),
        f"at most {limit}",
        f"{MIN_CONNECTIONS} or more",
        "Raise max_connections and restart the server.",
    )


def check_clock(connection: Conn) -> Finding:
    """The database's time against ours, halfway through the question; the best of three."""
    skews = []
    for _ in range(3):
        before = time.time()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        middle = (before + time.time()) / 2
        skews.append(float(row[0]) - middle if row else 0.0)
    skew = min(skews, key=abs)
    return Finding(
        "clock",
        judge(abs(skew) <= MAX_SKEW_SECONDS, "warning"),
        f"the database is {abs(skew):.3f} s {'ahead' if skew >= 0 else 'behind'}",
        f"within {MAX_SKEW_SECONDS:g} s",
        "Decisions use the database's clock, but logs will look odd: synchronise the clocks (NTP).",
    )


def check_role(connection: Conn) -> Finding:
    """What a stolen URL of a process would be worth."""
    row = connection.execute("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    name, is_superuser = row or ("unknown", False)
    return Finding(
        "role",
        judge(not is_superuser, "warning"),
        f"{name}, a superuser" if is_superuser else str(name),
        "no superuser",
        "Let processes use the role that `rmhdag db roles` creates.",
    )


def check_secrets(settings: Settings, dsn: str) -> Finding:
    """Of callback endpoints and secret inputs."""
    lacking = [
        name
        for name, value in (
            ("RMHDAG_SECRET_KEY", settings.secret_key),
            ("RMHDAG_CALLBACK_SECRET_KEY", settings.callback_secret_key),
        )
        if value is None
    ]
    fault = _key_fault(settings, dsn) if lacking else None
    what = "stored as they are" if settings.plain_secrets else "refused"
    return Finding(
        "secrets",
        judge(fault is None, "warning"),
        "sealed" if fault is None else f"{what}: {fault}",
        "sealed",
        "Set RMHDAG_SECRET_KEY_FILE to a key file, the same for all machines, or set both passphrases.",
    )


def _key_fault(settings: Settings, dsn: str) -> str | None:
    """Why the key file cannot seal, or cannot open what others have sealed. It is not made by this."""
    file = settings.key_file()
    try:
        if file.read() is None and not os.access(_nearest_folder(file.path), os.W_OK):
            return f"the key file {file.path} is not there and cannot be made"
        with open_connection(dsn, settings) as conn:
            Vault(None, file).prepare(conn)
    except SecretUnreadable as error:
        return str(error)
    except psycopg.Error:
        return None  # other checks name what is wrong with the database
    return None


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.exists())


def check_schema(url: str, settings: Settings) -> Finding:
    schema = settings.schema_name
    remedy = "Run `rmhdag db migrate`; --dry-run shows the steps."
    try:
        state = examine_schema(url, settings)
    except psycopg.Error as error:
        return Finding("schema", "failed", " ".join(str(error).split()), "up to date", remedy)
    if state.is_up_to_date:
        return Finding("schema", "ok", f"{schema} is up to date")
    value = f"{schema} lacks {state.steps} steps"
    if state.refusals:
        value += f" and {state.refusals} cannot be done safely"
    return Finding("schema", "failed", value, "up to date", remedy)
