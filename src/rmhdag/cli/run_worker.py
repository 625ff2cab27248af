"""`rmhdag worker`: one worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from rmhdag.cli.crash import arm_crash_point
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.handler_modules import broken_modules
from rmhdag.cli.lifeline import die_with, end_drained
from rmhdag.cli.observation import observed, trace_settings
from rmhdag.cli.options import SchemaOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.plain_http import warn_of_plain_http
from rmhdag.cli.run_orchestrator import HeartbeatOption, NoNotifyOption, ParentOption, PollOption
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.embedded.choice import default_folder
from rmhdag.machine.private_files import UnsafeFolder
from rmhdag.models.setting_types import QueueName

if TYPE_CHECKING:
    from rmhdag.worker.settings import WorkerSettings
    from rmhdag.worker.worker import Worker


def register(app: typer.Typer) -> None:
    app.command(short_help="Run a worker.")(worker)


def worker(
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", metavar="NAME", help="Queue to serve; may be repeated.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency", "-c", min=1, max=1000, help="Tasks to run at a time (default: one per processor)."
        ),
    ] = None,
    handlers: Annotated[
        str | None,
        typer.Option("--handlers", metavar="MODULES", help="Modules with handlers (default: RMHDAG_HANDLERS)."),
    ] = None,
    task_memory_mb: Annotated[
        int | None,
        typer.Option(
            "--task-memory", metavar="MB", min=16, help="Memory limit per task; a task that uses more is killed."
        ),
    ] = None,
    stop_seconds: Annotated[
        float | None,
        typer.Option(
            "--stop-seconds",
            metavar="SECONDS",
            min=0.1,
            max=86_400,
            help="Time for tasks to finish or save after SIGTERM, before they are killed and returned to the queue "
            "(default: 30).",
        ),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port", min=0, max=65535, help="Report health over HTTP on this port; 0 chooses a free port."
        ),
    ] = None,
    via_http: Annotated[
        str | None,
        typer.Option(
            "--via-http", metavar="URL", help="Use the HTTP API instead of the database, with the key in RMHDAG_KEY."
        ),
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Load the raster libraries before the first task needs them.")
    ] = False,
    no_notify: NoNotifyOption = False,
    heartbeat: HeartbeatOption = None,
    poll: PollOption = None,
    parent: ParentOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C. Running tasks then have 30 s (--stop-seconds) to finish or save their work.

    A second signal ends the wait. A task that does not end in time is killed and returned to the queue; no attempt is
    used up.

    \b
    Examples:
      rmhdag worker --queue light-tasks --concurrency 4
      WORKER_QUEUE=heavy rmhdag worker --handlers my_company.handlers
      RMHDAG_KEY=rmhdag_… rmhdag worker --via-http https://dag.example.org --queue heavy
      rmhdag worker --queue light-tasks --handlers rmhdag.handlers.examples

    The example handlers (echo, sleep and others) are available in development mode only; elsewhere, name their module.
    Without --queue the worker serves WORKER_QUEUE and DAG_WORKER_QUEUE, whichever are set; they have no defaults. With
    --via-http it needs no database; its key must have the scope `worker`, and it serves the key's namespace.
    """
    if parent is not None:
        die_with(parent)
    if via_http is not None and not via_http.startswith(("http://", "https://")):
        raise CommandFailed(f"{via_http!r} is not the URL of an API", remedy="Begin with https://", code=ExitCode.USAGE)
    flags = {
        "url": via_http,
        "database_url": database_url,
        "schema_name": schema,
        "heartbeat_seconds": heartbeat,
        "poll_seconds": poll,
        "concurrency": concurrency,
        "task_memory_mb": task_memory_mb,
        "worker_stop_seconds": stop_seconds,
        "handlers": handlers,
        "warm": warm or None,
        "worker_health_port": health_port,
        "notify": False if no_notify else None,
    }
    settings = load_settings(flags).settings
    queues = find_queues(settings, queue or [])
    arm_crash_point()
    from rmhdag.worker.crew import HandlersBrokenError

    with observed(settings, "rmhdag-worker"):
        try:
            if via_http is not None:
                running = run_over_http(settings, queues, via_http)
            else:
                running = run_over_database(settings, queues)
        except HandlersBrokenError as error:
            raise broken_modules(error.message, error.remedy) from None
        except UnsafeFolder as error:
            raise CommandFailed(
                f"the folder for temporary files of tasks is not safe: {error}",
                remedy="Set RMHDAG_SCRATCH to a folder that belongs to this user and that nobody else can write.",
                code=ExitCode.INVALID,
            ) from None
    if running.was_drained:
        end_drained(parent)
    say("stopped")


def run_over_database(settings: Settings, queues: tuple[str, ...]) -> Worker:
    from rmhdag.cli.database import migrated, open_connection
    from rmhdag.cli.schema_version import require_version, version_watched
    from rmhdag.cli.server import explained, name_server, opened_server, postgis_dsn
    from rmhdag.worker.worker import Worker

    with (
        opened_server(settings) as server,
        explained(settings),
        migrated(settings, name_server(server)),
    ):
        dsn, name = server.app_dsn(), name_server(server)
        with open_connection(dsn, settings) as conn:
            require_version(conn, settings, name)
        worker = Worker(worker_settings(settings, queues, dsn=dsn, postgis=postgis_dsn(settings, server)))
        announce(worker, name)
        with version_watched(dsn, settings, name, worker.stop):
            worker.run()
    return worker


def run_over_http(settings: Settings, queues: tuple[str, ...], url: str) -> Worker:
    """Nothing here may need the database's driver."""
    from rmhdag.worker.transport import KeyRefused, NotAllowed
    from rmhdag.worker.worker import Worker

    remedy = "Set RMHDAG_KEY to a key with the scope `worker`; `rmhdag keys create` creates one."
    if settings.key is None:
        raise CommandFailed("a worker over HTTP needs a key", remedy=remedy, code=ExitCode.AUTHENTICATION)
    warn_of_plain_http(url)
    postgis = None if settings.postgis_url is None else settings.postgis_url.get_secret_value()
    key = settings.key.get_secret_value()
    worker = Worker(worker_settings(settings, queues, api_url=url, api_key=key, postgis=postgis))
    announce(worker, url)
    try:
        worker.run()
    except KeyRefused as error:
        raise CommandFailed(str(error), remedy=remedy, code=ExitCode.AUTHENTICATION) from error
    except NotAllowed as error:
        raise CommandFailed(str(error), code=ExitCode.INVALID) from error
    return worker


def worker_settings(
    settings: Settings,
    queues: tuple[str, ...],
    *,
    dsn: str = "",
    api_url: str | None = None,
    api_key: str = "",
    postgis: str | None = None,
) -> WorkerSettings:
    from rmhdag.handlers.registry import split_modules
    from rmhdag.worker.settings import STUCK_SECONDS, WorkerSettings

    return WorkerSettings(
        queues=queues,
        schema=settings.schema_name,
        concurrency=settings.concurrency or processors(),
        handler_modules=tuple(split_modules(settings.handlers)),
        examples=settings.development if settings.examples is None else settings.examples,
        warm=bool(settings.warm),
        memory_limit_mb=settings.task_memory_mb,
        stop_seconds=settings.worker_stop_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        poll_seconds=settings.poll_seconds,
        notify=settings.notify,
        pooled=settings.database_pooled,
        stuck_seconds=max(STUCK_SECONDS, 2 * settings.orphan_seconds),
        health_host=settings.worker_health_host,
        health_port=settings.worker_health_port,
        traces=trace_settings(settings),
        storage=settings.storage_settings(),
        rasters=settings.raster_limits(),
        vectors=settings.vector_limits(),
        postgis_dsn=postgis,
        mount_folder=settings.mount,
        scratch_root=settings.scratch_folder(settings.home or default_folder()),
        task_variables=settings.task_variables(),
        task_umask=settings.task_umask_bits(),
        dsn=dsn,
        api_url=api_url,
        api_key=api_key,
    )


def announce(worker: Worker, name: str) -> None:
    queues, slots = ", ".join(worker.settings.queues), worker.settings.concurrency
    say(f"worker (process {os.getpid()}) serves {queues} in {name}, {slots} tasks at a time")


def find_queues(settings: Settings, names: list[str]) -> tuple[str, ...]:
    for name in names:
        try:
            TypeAdapter(QueueName).validate_python(name)
        except ValidationError:
            raise CommandFailed(
                f"{name!r} is not a valid queue name", remedy="Use letters, digits, . _ and -.", code=ExitCode.USAGE
            ) from None
    queues = names or [name for name in (settings.worker_queue, settings.dag_worker_queue) if name]
    if not queues:
        raise CommandFailed(
            "neither WORKER_QUEUE nor DAG_WORKER_QUEUE is set, and --queue is not given",
            remedy="Name the queue to serve; `rmhdag queues` shows where tasks wait.",
            code=ExitCode.INVALID,
        )
    return tuple(dict.fromkeys(queues))


def processors() -> int:
    return len(os.sched_getaffinity(0))
