"""`rmhdag db status|start|stop|tools`: the state of the database, and the embedded PostgreSQL in the background."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.embedded.lock import FolderLock
from rmhdag.machine.python import python_command

KEEPER_FILE = "keeper.pid"
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def status(
    as_json: JsonOption = False,
    database_url: Annotated[str | None, typer.Option("--database-url", metavar="URL")] = None,
    schema: Annotated[str | None, typer.Option("--schema", metavar="NAME")] = None,
) -> None:
    """Show which database is used, whether it answers and whether its schema is up to date. It starts nothing.

    \b
    Exit code 0 if the schema is up to date, 1 if it is not, 69 if the database does not answer.
    """
    from rmhdag.cli.server import choose_server, explained, name_server

    settings = load_settings({"database_url": database_url, "schema_name": schema}).settings
    server = choose_server(settings)
    state: dict[str, Any] = {
        "database": name_server(server),
        "embedded": isinstance(server, EmbeddedPostgres),
        "running": not isinstance(server, EmbeddedPostgres) or server.attach(),
        "server_version": None,
        "schema": settings.schema_name,
        "up_to_date": None,
        "pending_steps": None,
    }
    if state["running"]:
        with explained(settings):
            state |= inspect(server.owner_dsn(), settings)
    if as_json:
        emit_json(state)
    else:
        emit("".join(f"{name:<15} {show(value)}\n" for name, value in state.items()))
    if not state["running"]:
        say("the embedded PostgreSQL is not running; `rmhdag db start` starts it")
        raise typer.Exit(ExitCode.UNAVAILABLE)
    if not state["up_to_date"]:
        say("the schema is not up to date; run `rmhdag db migrate`")
        raise typer.Exit(ExitCode.FAILED)


def inspect(url: str, settings: Settings) -> dict[str, Any]:
    from rmhdag.cli.schema_check import examine_schema

    state = examine_schema(url, settings)
    return {
        "server_version": state.server_version,
        "up_to_date": state.is_up_to_date,
        "pending_steps": state.steps + state.refusals,
    }


def show(value: object) -> str:
    if value is None:
        return "unknown"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def start(
    foreground: Annotated[bool, typer.Option("--foreground", help="Run in the foreground until Ctrl-C.")] = False,
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
        errors = keeper.stderr.read()
    keeper.wait()
    return {"error": errors.removeprefix("error:").strip()}


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


def tools() -> None:
    """Show the folder with the programs of the embedded PostgreSQL: pg_dump, pg_restore and others of its version.

    \b
    Examples:
      "$(rmhdag db tools)/pg_dump" --format=custom --file=rmhdag.dump "$(rmhdag db start)"
    """
    _, server = embedded_server()
    assert server.binaries is not None  # chosen with the folder
    emit(f"{server.binaries.bin_folder}\n")


def wait_for_end(watch: int) -> None:
    ready, _, _ = select.select([watch], [], [], 60)
    if not ready:
        raise CommandFailed("it did not stop within 60 s", remedy="Its log is in the data folder.")


def read_keeper(folder: Path) -> str:
    try:
        return (folder / KEEPER_FILE).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def embedded_server() -> tuple[Settings, EmbeddedPostgres]:
    from rmhdag.cli.server import choose_server

    settings = load_settings().settings
    server = choose_server(settings)
    if not isinstance(server, EmbeddedPostgres):
        raise CommandFailed(
            "a database is named by RMHDAG_DATABASE_URL, so the embedded one is not used",
            remedy="Unset it to use the embedded PostgreSQL.",
            code=ExitCode.CONFLICT,
        )
    return settings, server
