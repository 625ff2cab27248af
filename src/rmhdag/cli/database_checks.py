"""The checks of `rmhdag doctor` that need a database: found, reached, new enough, durable, up to date, same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg

from rmhdag.cli.checks import Finding, judge
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.server import choose_server, explained, name_server
from rmhdag.cli.settings import Settings
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.store import migration
from rmhdag.store.connection import connect

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
        yield Finding("connection", "warning", "not made yet", "", "`rmhdag db migrate` makes the embedded PostgreSQL.")
        return
    with ExitStack() as stack:
        try:
            with explained(settings):
                stack.enter_context(server)
                connection = stack.enter_context(connect(server.app_dsn(), "rmhdag:doctor", autocommit=True))
        except CommandFailed as failure:
            yield Finding("connection", "failed", failure.message, "an answer", failure.remedy)
            return
        yield Finding("connection", "ok", name_server(server))
        yield check_server_version(connection)
        yield check_fsync(connection)
        yield check_connections(connection)
        yield check_clock(connection)
        yield check_role(connection)
        yield check_secrets(settings)
        yield check_schema(server.owner_dsn(), settings.schema_name)


def name_source(server: object) -> str:
    if not isinstance(server, EmbeddedPostgres):
        return "named by RMHDAG_DATABASE_URL"
    assert server.binaries is not None
    return f"embedded {server.binaries.version} ({server.binaries.source})"


def ask(connection: psycopg.Connection[Any], setting: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
    return str(row[0]) if row else ""


def check_server_version(connection: psycopg.Connection[Any]) -> Finding:
    number = int(ask(connection, "server_version_num"))
    return Finding(
        "server version",
        judge(number // 10_000 >= MIN_SERVER_VERSION),
        ask(connection, "server_version"),
        f"{MIN_SERVER_VERSION} or newer",
        "Upgrade the server, or unset RMHDAG_DATABASE_URL to use the embedded one.",
    )


def check_fsync(connection: psycopg.Connection[Any]) -> Finding:
    found = {name: ask(connection, name) for name in ("fsync", "full_page_writes")}
    return Finding(
        "durability",
        judge(set(found.values()) == {"on"}),
        ", ".join(f"{name} {value}" for name, value in found.items()),
        "on",
        "Without them a crash loses or damages jobs: ALTER SYSTEM SET fsync = on, and reload.",
    )


def check_connections(connection: psycopg.Connection[Any]) -> Finding:
    found = int(ask(connection, "max_connections"))
    return Finding(
        "connections",
        judge(found >= MIN_CONNECTIONS, "warning"),
        f"at most {found}",
        f"{MIN_CONNECTIONS} or more",
        "Raise max_connections and restart the server.",
    )


def check_clock(connection: psycopg.Connection[Any]) -> Finding:
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


def check_role(connection: psycopg.Connection[Any]) -> Finding:
    """What a stolen URL of a process would be worth."""
    row = connection.execute("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    name, is_superuser = row or ("unknown", False)
    return Finding(
        "role",
        judge(not is_superuser, "warning"),
        f"{name}, a superuser" if is_superuser else str(name),
        "no superuser",
        "Let processes use the role that `rmhdag db roles` makes.",
    )


def check_secrets(settings: Settings) -> Finding:
    """Of callback endpoints and secret inputs."""
    file = settings.key_file()
    has_file = file.may_make or file.path.exists()
    lacking = [
        name
        for name, value in (
            ("RMHDAG_SECRET_KEY", settings.secret_key),
            ("RMHDAG_CALLBACK_SECRET_KEY", settings.callback_secret_key),
        )
        if value is None and not has_file
    ]
    return Finding(
        "secrets",
        judge(not lacking, "warning"),
        f"stored as they are: {' and '.join(lacking)} not set" if lacking else "sealed",
        "sealed",
        "Name a key file by RMHDAG_SECRET_KEY_FILE, the same for all machines, or set a passphrase.",
    )


def check_schema(url: str, schema: str) -> Finding:
    remedy = "`rmhdag db migrate` brings it there; --dry-run shows how."
    try:
        made = migration.plan(url, schema)
    except psycopg.Error as error:
        return Finding("schema", "failed", " ".join(str(error).split()), "up to date", remedy)
    if made.is_empty:
        return Finding("schema", "ok", f"{schema} is up to date")
    value = f"{schema} lacks {len(made.steps)} steps"
    if made.refusals:
        value += f" and {len(made.refusals)} cannot be done safely"
    return Finding("schema", "failed", value, "up to date", remedy)
