"""`rmhdag db status|start|stop`: whether the database is there, and the embedded one kept running in the background."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.machine.python import python_command

if TYPE_CHECKING:
    from rmhdag.cli.settings import Settings
    from rmhdag.embedded import EmbeddedPostgres

KEEPER_FILE = "keeper.pid"
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def status(
    as_json: JsonOption = False,
    database_url: Annotated[str | None, typer.Option("--database-url", metavar="URL")] = None,
    schema: Annotated[str | None, typer.Option("--schema", metavar="NAME")] = None,
) -> None:
    """Show which database is used, whether it answers and whether its schema is up to date. Starts nothing.

    \b
    Exit code 0 if all is well, 1 if the schema is not up to date, 69 if the database does not answer.
    """
    from rmhdag.cli.server import choose_server, explained, name_server
    from rmhdag.cli.settings import load_settings
    from rmhdag.embedded import EmbeddedPostgres

    settings = load_settings({"database_url": database_url, "schema_name": schema}).settings
    server = choose_server(settings)
    found: dict[str, Any] = {
        "database": name_server(server),
        "embedded": isinstance(server, EmbeddedPostgres),
        "running": not isinstance(server, EmbeddedPostgres) or server.attach(),
        "server_version": None,
        "schema": settings.schema_name,
        "up_to_date": None,
        "pending_steps": None,
    }
    if found["running"]:
        with explained(settings):
            found |= inspect(server.owner_dsn(), settings.schema_name)
    if as_json:
        emit_json(found)
    else:
        emit("".join(f"{name:<15} {show(value)}\n" for name, value in found.items()))
    if not found["running"]:
        say("the embedded PostgreSQL is not running; `rmhdag db start` starts it")
        raise typer.Exit(ExitCode.UNAVAILABLE)
    if not found["up_to_date"]:
        say("the schema is not up to date; `rmhdag db migrate` brings it there")
        raise typer.Exit(ExitCode.FAILED)


def inspect(url: str, schema: str) -> dict[str, Any]:
    from rmhdag.store import migration
    from rmhdag.store.connection import connect

    with connect(url, "rmhdag:status") as connection:
        row = connection.execute("SELECT current_setting('server_version')").fetchone()
    made = migration.plan(url, schema)
    return {
        "server_version": row[0] if row else None,
        "up_to_date": made.is_empty,
        "pending_steps": len(made.steps) + len(made.refusals),
    }


def show(value: object) -> str:
    if value is None:
        return "unknown"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def start(
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Start the embedded PostgreSQL and keep it running; show its URL.

    \b
    Examples:
      rmhdag db start
      psql "$(rmhdag db start)"
      rmhdag db stop
    """
    settings, server = embedded_server()
    if foreground:
        keep_running(settings, server, as_json=as_json)
        return
    if server.attach():
        say("already running")
        tell_url(server, as_json=as_json)
        return
    answer = spawn_keeper()
    if not answer.get("url"):
        raise CommandFailed(str(answer.get("error") or "it did not start"), code=ExitCode.UNAVAILABLE)
    emit_json(answer) if as_json else emit(f"{answer['url']}\n")


def spawn_keeper() -> dict[str, Any]:
    """The same command in a session of its own; its first line says how it went."""
    keeper = subprocess.Popen(
        python_command("rmhdag.cli", "db", "start", "--foreground", "--json"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert keeper.stdout is not None
    assert keeper.stderr is not None
    with keeper.stdout, keeper.stderr:
        line = keeper.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        told = keeper.stderr.read()
    keeper.wait()
    return {"error": told.removeprefix("error:").strip()}


def keep_running(settings: Settings, server: EmbeddedPostgres, *, as_json: bool) -> None:
    from rmhdag.cli.server import explained

    stopping = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    with explained(settings), server:
        if server.attached:
            raise CommandFailed("it is already running, and another process keeps it", code=ExitCode.CONFLICT)
        keeper_file = server.folder / KEEPER_FILE
        keeper_file.write_text(str(os.getpid()), encoding="ascii")
        try:
            tell_url(server, as_json=as_json)
            signal.sigwait(stopping)
        finally:
            keeper_file.unlink(missing_ok=True)


def tell_url(server: EmbeddedPostgres, *, as_json: bool) -> None:
    emit_json({"url": server.dsn(), "folder": str(server.folder)}) if as_json else emit(f"{server.dsn()}\n")


def stop() -> None:
    """Stop the embedded PostgreSQL that `rmhdag db start` keeps running."""
    from rmhdag.embedded.lock import FolderLock

    _, server = embedded_server()
    if not server.attach():
        say("nothing to do: it is not running")
        return
    holder = FolderLock(server.folder / "lock").holder()
    if holder != read_keeper(server.folder):
        raise CommandFailed(
            f"process {holder} started the server in {server.folder} and needs it",
            remedy="Stop that process instead; the server ends with it.",
            code=ExitCode.CONFLICT,
        )
    watch = os.pidfd_open(int(holder))
    try:
        os.kill(int(holder), signal.SIGTERM)
        wait_for_end(watch)
    finally:
        os.close(watch)
    say("stopped")


def wait_for_end(watch: int) -> None:
    import select

    ready, _, _ = select.select([watch], [], [], 60)
    if not ready:
        raise CommandFailed("it does not stop within 60 s", remedy="Its log is in the data folder.")


def read_keeper(folder: Path) -> str:
    try:
        return (folder / KEEPER_FILE).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def embedded_server() -> tuple[Settings, EmbeddedPostgres]:
    from rmhdag.cli.server import choose_server
    from rmhdag.cli.settings import load_settings
    from rmhdag.embedded import EmbeddedPostgres

    settings = load_settings().settings
    server = choose_server(settings)
    if not isinstance(server, EmbeddedPostgres):
        raise CommandFailed(
            "a database is named by RMHDAG_DATABASE_URL, so the embedded one is not used",
            remedy="Unset it to use the embedded PostgreSQL.",
            code=ExitCode.CONFLICT,
        )
    return settings, server
