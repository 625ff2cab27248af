"""`rmhdag orchestrator`: one orchestrator until SIGTERM or Ctrl-C; any number may run at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.callback_settings import callback_settings
from rmhdag.cli.crash import arm_crash_point
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.lifeline import die_with, end_drained
from rmhdag.cli.observation import observed
from rmhdag.cli.options import SchemaOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.settings import Settings, load_settings, variables_of
from rmhdag.models.catalogue import CatalogueKind

if TYPE_CHECKING:
    from rmhdag.orchestrator.process import Orchestrator

DAY_SECONDS = 86_400.0
NoNotifyOption = Annotated[bool, typer.Option("--no-notify", help="Only poll, for use behind a transaction pooler.")]
HeartbeatOption = Annotated[
    float | None,
    typer.Option("--heartbeat", metavar="SECONDS", help="Heartbeat interval (default: HEARTBEAT_INTERVAL_SEC)."),
]
PollOption = Annotated[
    float | None, typer.Option("--poll", metavar="SECONDS", help="Poll interval (default: POLL_INTERVAL_SEC).")
]
ParentOption = Annotated[int | None, typer.Option("--parent", hidden=True, help="End when this process ends.")]


def register(app: typer.Typer) -> None:
    app.command(short_help="Run an orchestrator.")(orchestrator)


def orchestrator(
    no_notify: NoNotifyOption = False,
    heartbeat: HeartbeatOption = None,
    poll: PollOption = None,
    orphan_threshold: Annotated[
        float | None,
        typer.Option(
            "--orphan-threshold",
            metavar="SECONDS",
            help="Time without a heartbeat before a process is considered dead (default: ORPHAN_THRESHOLD_SEC).",
        ),
    ] = None,
    orphan_scan: Annotated[
        float | None,
        typer.Option(
            "--orphan-scan",
            metavar="SECONDS",
            help="Interval between checks for dead processes (default: ORPHAN_SCAN_INTERVAL_SEC).",
        ),
    ] = None,
    with_api: Annotated[
        bool,
        typer.Option("--api", help="Also serve the HTTP API, in a separate process that ends with the orchestrator."),
    ] = False,
    parent: ParentOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Run an orchestrator until SIGTERM or Ctrl-C; it then hands its jobs over. You can run any number of
    orchestrators.

    \b
    Examples:
      rmhdag orchestrator
      rmhdag orchestrator --api
      JOB_QUEUE_NAME=jobs DAG_WORKER_QUEUE=light WORKER_QUEUE=heavy rmhdag orchestrator --no-notify

    Requires JOB_QUEUE_NAME, DAG_WORKER_QUEUE and WORKER_QUEUE, which have no defaults.
    """
    from rmhdag.cli.api_process import api_beside
    from rmhdag.cli.database import migrated, open_connection
    from rmhdag.cli.handler_queues import FreshHandlerQueues
    from rmhdag.cli.schema_version import prepare_database, version_watched
    from rmhdag.cli.server import explained, name_server, opened_server, postgis_dsn
    from rmhdag.orchestrator.context import OrchestratorSettings
    from rmhdag.orchestrator.process import Orchestrator

    if parent is not None:
        die_with(parent)
    flags = {
        "database_url": database_url,
        "schema_name": schema,
        "heartbeat_seconds": heartbeat,
        "poll_seconds": poll,
        "orphan_seconds": orphan_threshold,
        "orphan_scan_seconds": orphan_scan,
        "notify": False if no_notify else None,
    }
    settings = load_settings(flags).settings
    require_queues(settings)
    check_lease(settings)
    arm_crash_point()
    with (
        observed(settings, "rmhdag-orchestrator"),
        opened_server(settings) as server,
        explained(settings),
        migrated(settings, name_server(server)),
    ):
        dsn, name = server.app_dsn(), name_server(server)
        with open_connection(dsn, settings) as conn:
            prepare_database(conn, settings, name)
        require_catalogue(settings, dsn)
        running = Orchestrator(
            dsn,
            settings.schema_name,
            OrchestratorSettings(
                heartbeat_seconds=settings.heartbeat_seconds,
                ttl_seconds=settings.orphan_seconds,
                margin_seconds=margin(settings),
                poll_seconds=settings.poll_seconds,
                orphan_scan_seconds=settings.orphan_scan_seconds,
                stall_seconds=settings.stall_warning_seconds,
                stuck_seconds=settings.stuck_job_days * DAY_SECONDS,
                worker_wait_seconds=(
                    None if settings.worker_wait_days is None else settings.worker_wait_days * DAY_SECONDS
                ),
                retention_days=settings.retention_days,
                retention_history_days=settings.retention_history_days,
                retention_payload_days=settings.retention_payload_days,
                callbacks=callback_settings(settings),
                catalogue=settings.catalogue,
                storage=settings.storage_settings(),
                postgis_dsn=postgis_dsn(settings, server),
                table_revisions=settings.table_revisions,
                template_env=settings.template_values(),
                quotas=settings.quota_defaults(),
            ),
            FreshHandlerQueues(dsn, settings),
            notify=settings.notify,
            pooled=settings.database_pooled,
            # Not even the end of its life gets the loop out: the supervisor of this process starts another one.
            on_hang=lambda: os._exit(ExitCode.FAILED),
        )
        stop_on_signals(running)
        say(f"orchestrator (process {os.getpid()}) works on {name}")
        with (
            version_watched(dsn, settings, name, running.stop),
            api_beside(settings, flags) if with_api else nullcontext(),
        ):
            running.run()
    if running.was_drained:
        end_drained(parent)
    say("stopped")


def require_queues(settings: Settings) -> None:
    """Queues have no defaults: a wrong guess would send work where nobody looks."""
    missing = [
        variables_of(field)[-1]
        for field in ("job_queue_name", "dag_worker_queue", "worker_queue")
        if getattr(settings, field) is None
    ]
    if missing:
        raise CommandFailed(
            f"no queue is configured by {', '.join(missing)}",
            remedy="Set each to the name of a queue; `rmhdag up` configures its own. `rmhdag config show` lists "
            "settings.",
            code=ExitCode.INVALID,
        )


def require_catalogue(settings: Settings, dsn: str) -> None:
    """Told at once, not by the first node that publishes."""
    from rmhdag.store.connection import connect
    from rmhdag.store.pgstac import has_pgstac

    if settings.catalogue is not CatalogueKind.PGSTAC:
        return
    with connect(dsn, "orchestrator:catalogue", autocommit=True, pooled=settings.database_pooled) as conn:
        if not has_pgstac(conn):
            raise CommandFailed(
                "RMHDAG_CATALOGUE is pgstac, and the database has no pgSTAC",
                remedy="Install PostGIS and pgSTAC in this database, or set RMHDAG_CATALOGUE=static.",
                code=ExitCode.INVALID,
            )


def margin(settings: Settings) -> float:
    """How long before the others call it dead a process stops to trust itself."""
    return settings.orphan_seconds / 5


def check_lease(settings: Settings) -> None:
    worth = settings.orphan_seconds - margin(settings)
    if settings.heartbeat_seconds * 2 > worth:
        raise CommandFailed(
            f"a heartbeat every {settings.heartbeat_seconds:g} s is too infrequent for an orphan threshold of "
            f"{settings.orphan_seconds:g} s: one late heartbeat would lose all jobs",
            remedy=f"Set HEARTBEAT_INTERVAL_SEC to {worth / 2:g} or less, or raise ORPHAN_THRESHOLD_SEC.",
            code=ExitCode.INVALID,
        )


def stop_on_signals(running: Orchestrator) -> None:
    """The first signal hands the jobs over, the second does not wait for that."""
    is_stopping = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            os._exit(ExitCode.INTERRUPTED)
        is_stopping = True
        # A thread, because the interrupted code may hold the very lock that stopping needs.
        threading.Thread(target=running.stop, name="stop").start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
