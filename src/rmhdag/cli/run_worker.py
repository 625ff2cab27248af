"""`rmhdag worker`: one worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import SchemaOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.run_orchestrator import HeartbeatOption, NoNotifyOption, ParentOption, PollOption

if TYPE_CHECKING:
    from rmhdag.cli.settings import Settings


def register(app: typer.Typer) -> None:
    app.command(short_help="Run a worker.")(worker)


def worker(
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", metavar="NAME", help="Serve this queue; may be repeated.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-c", min=1, max=1000, help="Tasks at a time; else one per processor."),
    ] = None,
    handlers: Annotated[
        str | None, typer.Option("--handlers", metavar="MODULES", help="Instead of RMHDAG_HANDLERS.")
    ] = None,
    task_memory_mb: Annotated[
        int | None, typer.Option("--task-memory", metavar="MB", min=16, help="A task that uses more is ended.")
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", min=0, max=65535, help="Tell over HTTP whether it is well; 0 takes a free port."),
    ] = None,
    no_notify: NoNotifyOption = False,
    heartbeat: HeartbeatOption = None,
    poll: PollOption = None,
    parent: ParentOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C: it finishes or saves what it runs, within 30 s. A second one does not wait.

    \b
    Examples:
      rmhdag worker --queue light-tasks --concurrency 4
      WORKER_QUEUE=heavy rmhdag worker --handlers my_company.handlers

    Without --queue it serves WORKER_QUEUE and DAG_WORKER_QUEUE, whichever are set; they have no defaults.
    """
    from rmhdag.cli.crash import arm_crash_point
    from rmhdag.cli.lifeline import die_with
    from rmhdag.cli.observation import observed, trace_settings
    from rmhdag.cli.platform import migrated, open_connection
    from rmhdag.cli.server import explained, opened
    from rmhdag.cli.settings import load_settings
    from rmhdag.handlers.registry import split_modules
    from rmhdag.store import views
    from rmhdag.worker.settings import WorkerSettings
    from rmhdag.worker.worker import Worker

    if parent is not None:
        die_with(parent)
    flags = {
        "database_url": database_url,
        "schema_name": schema,
        "heartbeat_seconds": heartbeat,
        "poll_seconds": poll,
        "concurrency": concurrency,
        "task_memory_mb": task_memory_mb,
        "handlers": handlers,
        "worker_health_port": health_port,
        "notify": False if no_notify else None,
    }
    settings = load_settings(flags).settings
    queues = find_queues(settings, queue or [])
    arm_crash_point()
    with (
        observed(settings, "rmhdag-worker"),
        opened(settings) as (dsn, name),
        explained(settings),
        migrated(settings, name),
    ):
        with open_connection(dsn, settings) as conn:
            views.workers(conn)  # the schema is there, or this says so
        slots = settings.concurrency or processors()
        say(f"worker (process {os.getpid()}) serves {', '.join(queues)} in {name}, {slots} tasks at a time")
        Worker(
            WorkerSettings(
                dsn=dsn,
                queues=queues,
                schema=settings.schema_name,
                concurrency=slots,
                handler_modules=tuple(split_modules(settings.handlers)),
                memory_limit_mb=settings.task_memory_mb,
                heartbeat_seconds=settings.heartbeat_seconds,
                poll_seconds=settings.poll_seconds,
                notify=settings.notify,
                pooled=settings.database_pooled,
                health_host=settings.worker_health_host,
                health_port=settings.worker_health_port,
                traces=trace_settings(settings),
            )
        ).run()
    say("stopped")


def find_queues(settings: Settings, given: list[str]) -> tuple[str, ...]:
    from pydantic import TypeAdapter, ValidationError

    from rmhdag.cli.settings import QueueName

    for name in given:
        try:
            TypeAdapter(QueueName).validate_python(name)
        except ValidationError:
            raise CommandFailed(
                f"{name!r} is no name of a queue", remedy="Use letters, digits, . _ and -.", code=ExitCode.USAGE
            ) from None
    found = given or [name for name in (settings.worker_queue, settings.dag_worker_queue) if name]
    if not found:
        raise CommandFailed(
            "no queue is configured by WORKER_QUEUE or DAG_WORKER_QUEUE, and none is given by --queue",
            remedy="Name the queue to serve; `rmhdag queues` shows where tasks wait.",
            code=ExitCode.INVALID,
        )
    return tuple(dict.fromkeys(found))


def processors() -> int:
    return len(os.sched_getaffinity(0))
