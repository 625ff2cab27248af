"""`rmhdag up`: everything with one command; nothing is left when it ends, however it ends."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmhdag.cli.acting_name import who
from rmhdag.cli.api_process import answers, api_command, listening, login_link, near_url, services_listening
from rmhdag.cli.doors import inside
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.gateway_process import gateway_place
from rmhdag.cli.handler_modules import describe_handlers
from rmhdag.cli.local_door import open_door
from rmhdag.cli.options import JsonOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit_json, paint, say
from rmhdag.cli.run_api import address_of
from rmhdag.cli.run_orchestrator import check_lease
from rmhdag.cli.run_worker import processors
from rmhdag.cli.sample_data import require_geo
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.cli.supervisor import Supervised, Supervisor
from rmhdag.embedded import EmbeddedPostgres, EmbeddedPostgresError, ExternalServer
from rmhdag.embedded.lock import FolderLock
from rmhdag.machine.private_files import make_home, tighten_home
from rmhdag.machine.python import python_command
from rmhdag.serving.environment import EnvironmentMissing, ensure_python

if TYPE_CHECKING:
    from rmhdag.cli.reload import Reloader
    from rmhdag.store.connection import Conn
    from rmhdag.workflow import HandlerEntry

READY_SECONDS = 60.0
OWNER_VARIABLE = "RMHDAG_OWNER_DATABASE_URL"
MOST_DEATHS = 3
LEAST_TASK_MEMORY_MB = 1024
PATIENCE_SECONDS = 10.0
# A worker that has used up its time still reports.
REPORT_SECONDS = 5.0
SERVICES = "services"
# These have no row in the database: whether they answer is asked otherwise, or the user sees it.
UNREGISTERED = frozenset({"api", "gateway", SERVICES})


def register(app: typer.Typer) -> None:
    app.command(short_help="Start everything: database, orchestrator, worker, API.")(up)


def up(
    workflows: Annotated[
        list[Path] | None,
        typer.Option("--workflows", metavar="FOLDER", help="Also register this workflow file or folder."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", "-c", min=1, max=1000, help="Tasks to run at a time (default: one per processor)."
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run", metavar="WORKFLOW", help="Run this workflow when everything is up, and show its progress."
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="When everything is up, process a sample raster and show the result.")
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Reload handlers and the files named by --workflows when they change.")
    ] = False,
    gateway: Annotated[
        bool,
        typer.Option("--gateway", help="Also start a gateway for business partners, and print a sandbox key for it."),
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Also serve STAC, OGC features and tiles: see `rmhdag serve`.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Exit when --run and --demo have finished.")] = False,
    as_json: JsonOption = False,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Start everything: an embedded PostgreSQL (or the one that RMHDAG_DATABASE_URL names), its schema, the workflows
    that come with rmhdag, an orchestrator, a worker and the HTTP API. Print a login link for the browser that works
    once. Ctrl-C stops everything.

    \b
    Examples:
      rmhdag up
      rmhdag up --workflows workflows/ --concurrency 4
      rmhdag up --run hello_world --once
      rmhdag up --demo
      rmhdag up --gateway
      rmhdag up --serve
      RMHDAG_HANDLERS=my_handlers rmhdag up --workflows flow.yaml
      RMHDAG_HANDLERS=my_handlers rmhdag up --reload --workflows flow.yaml

    The modules in RMHDAG_HANDLERS are first loaded in a separate process. If one of them has an error, the error is
    shown with its place and nothing is started.

    With --reload, saved changes take effect within two seconds: a new worker loads the handlers and replaces the old
    one, which finishes its tasks; workflow files are registered again, and running jobs keep their version. If code
    cannot be loaded or a workflow has problems, the errors are shown, the previous version stays, and `up` goes on.

    With --gateway, the gateway's address and a sandbox key are printed: orders with this key are checked like real ones
    but not placed, and it ends with `up`. `rmhdag keys create NAME --scope b2b` creates a key for real orders.
    """
    from rmhdag.cli.server import choose_server, data_folder, explained, name_server

    if demo:
        require_geo()
    if serve:
        install_services()
    flags = {"database_url": database_url, "schema_name": schema}
    home = data_folder(load_settings(flags).settings)
    with only_one(home):
        settings, written = configure(flags, home)
        own = describe_handlers(settings.handlers)
        with (
            supervisor(home, flags) as watcher,
            listening(settings, flags) as listener,
            services_listening(settings, flags, serves=serve) as services,
        ):
            server = choose_server(settings)
            say(f"starting, with {name_server(server)}")
            with explained(settings), server:
                guard_server(watcher, server)
                paths = [str(path) for path in workflows or []]
                reloader = make_reloader(watcher, settings, server.app_dsn(), paths) if reload else None
                names = prepare(server, settings, [] if reloader else paths, own)
                if reloader is not None:
                    names += reloader.register_first(known_to_worker(own))
                with ExitStack() as stack:
                    door = stack.enter_context(open_door(home, near_url(listener), settings))
                    start_processes(watcher, settings, concurrency, listener, door)
                    place = None
                    if gateway:
                        api_url = near_url(listener) or address_of(listener)
                        place = stack.enter_context(gateway_place(server, settings, flags, api_url))
                        words = place.command(os.getpid())
                        watcher.start("gateway", words, [place.listener.fileno()], place.environment)
                    if services is not None:
                        start_services(watcher, services)
                    listeners = [listener, *([] if place is None else [place.listener])]
                    wait_until_ready(watcher, server.app_dsn(), settings, listeners)
                    link = stack.enter_context(login_link(server.app_dsn(), settings, home, listener))
                    if not watcher.stopping:
                        web = {"url": address_of(listener), "login_url": link}
                        web["gateway_url"] = None if place is None else place.url
                        web["sandbox_key"] = None if place is None else place.sandbox_key
                        web["services_url"] = None if services is None else address_of(services)
                        tell(watcher, server, settings, home, written, names, web, as_json=as_json)
                    shows = [["submit", name, "--wait"] for name in run or []] + ([["demo"]] if demo else [])
                    code = live(watcher, shows, reloader, once=once)
                    stop(watcher, settings.worker_stop_seconds + REPORT_SECONDS)
    say("stopped; all processes have ended")
    raise typer.Exit(code)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Two of them on one folder would stop each other's server."""
    lock = FolderLock(home / "up.lock")
    try:
        make_home(home)
        tighten_home(home)
        is_ours = lock.try_to_take()
    except (OSError, EmbeddedPostgresError) as error:
        raise CommandFailed(
            f"the data folder {home} cannot be used: {error}",
            remedy="Set RMHDAG_HOME to another one.",
            code=ExitCode.UNAVAILABLE,
        ) from error
    if not is_ours:
        raise CommandFailed(
            f"rmhdag is already up on {home} (process {lock.holder()})",
            remedy="Use it, stop it, or set RMHDAG_HOME to another data folder.",
            code=ExitCode.CONFLICT,
        )
    try:
        yield
    finally:
        lock.release()


def configure(flags: dict[str, str | None], home: Path) -> tuple[Settings, Path | None]:
    from rmhdag.cli.development import ensure_configuration

    settings, written = ensure_configuration(flags, home)
    check_lease(settings)
    return settings, written


@contextmanager
def supervisor(home: Path, flags: dict[str, str | None]) -> Iterator[Supervisor]:
    variables = {"RMHDAG_DATABASE_URL": flags["database_url"], "RMHDAG_SCHEMA": flags["schema_name"]}
    # It is for development, whatever the settings of production say beside it.
    environment = (
        {"RMHDAG_EXAMPLES": "1"} | os.environ | {name: value for name, value in variables.items() if value is not None}
    )
    # Processes have no business with the owner's rights.
    environment.pop(OWNER_VARIABLE, None)
    watcher = Supervisor(home / "logs", environment, lambda text: say(f"{paint('warning:', '33', sys.stderr)} {text}"))
    watcher.listen()
    try:
        yield watcher
    finally:
        watcher.close()


def guard_server(watcher: Supervisor, server: ExternalServer | EmbeddedPostgres) -> None:
    """An embedded server that dies is started again, on the same port, so that everybody finds it."""
    if not isinstance(server, EmbeddedPostgres) or server.process_id is None:
        return

    def restart() -> None:
        if not watcher.stopping:
            say(f"{paint('warning:', '33', sys.stderr)} PostgreSQL has ended; it is started again")
            server.stop()
            server.start()
            guard_server(watcher, server)

    watcher.watch(server.process_id, restart)


def prepare(
    server: ExternalServer | EmbeddedPostgres, settings: Settings, paths: list[str], own: Sequence[HandlerEntry]
) -> list[str]:
    """The schema and the workflows; their names. The worker that is started next will have our handlers and `own`."""
    from rmhdag.cli.registering import register_files, register_shipped
    from rmhdag.cli.schema_owner import migrate_schema
    from rmhdag.cli.server import name_server
    from rmhdag.store.migration_steps import MigrationFailed, MigrationRefused

    name = who(None)
    try:
        migrate_schema(server, settings, actor=name)
    except (MigrationRefused, MigrationFailed) as error:
        raise CommandFailed(
            f"the database cannot be migrated: {error}",
            remedy="`rmhdag db migrate` shows more.",
            code=ExitCode.CONFLICT,
        ) from error
    dsn, server_name = server.app_dsn(), name_server(server)
    with inside(dsn, settings, server_name, ships=True) as platform:
        versions = register_shipped(platform)
    if paths:
        with inside(dsn, settings, server_name, own=known_to_worker(own)) as platform:
            versions += register_files(platform, paths)
    return [f"{version.workflow_id} v{version.version}" for version in versions]


def known_to_worker(own: Sequence[HandlerEntry]) -> list[HandlerEntry]:
    """What the worker that is started next will have."""
    from rmhdag.workflow import shipped_handlers

    return [*shipped_handlers().entries(), *own]


def make_reloader(watcher: Supervisor, settings: Settings, dsn: str, paths: list[str]) -> Reloader:
    from rmhdag.cli.reload import Reloader

    reloader = Reloader(watcher, settings, dsn, paths, settings.worker_stop_seconds + REPORT_SECONDS)
    say(f"watching {reloader.describe()}")
    return reloader


def start_processes(
    watcher: Supervisor, settings: Settings, concurrency: int | None, listener: socket.socket, door: Path | None
) -> None:
    command = python_command("rmhdag.cli")
    parent = ["--parent", str(os.getpid())]
    slots = [] if concurrency is None else ["--concurrency", str(concurrency)]
    slots += ["--warm"] if settings.warm is None else []
    if settings.task_memory_mb is None:
        slots += ["--task-memory", str(fair_memory_mb(concurrency or settings.concurrency or processors()))]
    watcher.start("orchestrator", [*command, "orchestrator", *parent])
    watcher.start("worker", [*command, "worker", *parent, *slots])
    watcher.start("api", api_command(os.getpid(), listener, door), [listener.fileno()])


def install_services() -> None:
    try:
        ensure_python(say)
    except EnvironmentMissing as error:
        raise CommandFailed(str(error), code=ExitCode.UNAVAILABLE) from error


def start_services(watcher: Supervisor, listener: socket.socket) -> None:
    words = ["serve", "--parent", str(os.getpid()), "--listener", str(listener.fileno())]
    watcher.start(SERVICES, python_command("rmhdag.cli", *words), [listener.fileno()])


def fair_memory_mb(slots: int) -> int:
    """What a task may use so that all together leave the machine a fifth of its memory, or of its container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return max(LEAST_TASK_MEMORY_MB, total * 4 // 5 // 2**20 // slots)


def wait_until_ready(watcher: Supervisor, dsn: str, settings: Settings, listeners: Sequence[socket.socket]) -> None:
    """Two are registered, the others answer. A process that keeps crashing is shown with its last output."""
    from rmhdag.cli.database import open_connection

    deadline = time.monotonic() + READY_SECONDS
    with open_connection(dsn, settings) as conn:
        while not watcher.stopping and not (is_ready(conn, watcher) and all(map(answers, listeners))):
            watcher.turn(0.05)
            dying = next(
                (supervised for supervised in watcher.processes.values() if supervised.deaths >= MOST_DEATHS), None
            )
            if dying is not None or time.monotonic() > deadline:
                raise not_ready(dying)


def is_ready(conn: Conn, watcher: Supervisor) -> bool:
    from rmhdag.store.processes import registered_process_ids

    alive = registered_process_ids(conn)
    return all(
        supervised.process_id in alive
        for supervised in watcher.processes.values()
        if supervised.name not in UNREGISTERED
    )


def not_ready(dying: Supervised | None) -> CommandFailed:
    if dying is None:
        return CommandFailed(f"orchestrator, worker and API were not ready within {READY_SECONDS:g} s")
    cause = dying.last_error()
    if cause:
        return CommandFailed(f"the {dying.name} does not start: {cause}", remedy=f"More is in {dying.log}.")
    return CommandFailed(f"the {dying.name} did not start; the end of {dying.log}:\n{dying.log_tail()}")


def tell(
    watcher: Supervisor,
    server: ExternalServer | EmbeddedPostgres,
    settings: Settings,
    home: Path,
    written: Path | None,
    names: list[str],
    web: dict[str, str | None],
    *,
    as_json: bool,
) -> None:
    from rmhdag.cli.server import name_server

    queues = {"jobs": settings.job_queue_name, "light": settings.dag_worker_queue, "heavy": settings.worker_queue}
    storage = settings.storage_settings().describe() or "not configured"
    processes = {name: supervised.process_id for name, supervised in watcher.processes.items()}
    if as_json:
        facts: dict[str, Any] = {"up": True, "database": name_server(server), "schema": settings.schema_name, **web}
        facts |= {"queues": queues, "storage": storage, "workflows": names, "processes": processes}
        emit_json({**facts, "logs": str(home / "logs")})
        return
    lines = [
        ("database", f"{name_server(server)}, schema {settings.schema_name}"),
        ("queues", ", ".join(str(queue) for queue in queues.values())),
        *((name, f"process {process_id}") for name, process_id in processes.items()),
        ("workflows", ", ".join(names)),
        ("storage", storage),
        ("logs", str(home / "logs")),
        ("web", str(web["login_url"] or web["url"])),
        *([("service URL", web["services_url"])] if web["services_url"] else []),
    ]
    if web["gateway_url"] is not None:
        lines += [("partners", f"{web['gateway_url']}, described at /docs"), ("sandbox key", str(web["sandbox_key"]))]
    if written is not None:
        say(f"wrote {written}: queues or storage were not configured, so it configures them for development")
    say(paint("rmhdag is up", "32", sys.stderr))
    for name, text in lines:
        say(f"  {name:<13} {text}")
    if web["login_url"] is not None:
        say("The link logs in one browser on this machine, within ten minutes.")
    say("In another terminal: rmhdag submit hello_world name=Ada --wait.  Ctrl-C stops everything.")


def live(watcher: Supervisor, shows: list[list[str]], reloader: Reloader | None = None, *, once: bool) -> int:
    """Run these commands for the user to see, then stay; the exit code is that of the first that did not end well."""
    code = int(ExitCode.OK)
    for words in shows:
        if watcher.stopping:
            code = code or int(ExitCode.INTERRUPTED)
            break
        say(f"\n{paint(' '.join(['rmhdag', *words]), '1', sys.stderr)}")
        ended = watcher.run_to_end(python_command("rmhdag.cli", *words))
        code = code or (int(ExitCode.INTERRUPTED) if ended is None else ended)
    while not once and not watcher.stopping:
        watcher.turn(None if reloader is None else reloader.pause_seconds)
        if reloader is not None:
            reloader.look()
    return code if once else int(ExitCode.OK)


def stop(watcher: Supervisor, worker_seconds: float) -> None:
    """The worker first: it may still report what it finishes."""
    watcher.stop_requests = max(watcher.stop_requests, 1)
    if not all(supervised.process is None for supervised in watcher.processes.values()):
        say("stopping")
    patience_seconds = {SERVICES: PATIENCE_SECONDS * 2, "worker": worker_seconds}
    patience_seconds |= dict.fromkeys(("gateway", "orchestrator", "api"), PATIENCE_SECONDS)
    for name, patience in patience_seconds.items():
        if name in watcher.processes:
            watcher.end(name, patience)
    watcher.end_retiring()
