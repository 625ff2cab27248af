"""`rmhdag workers`: who runs tasks, and which are alive."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.draining import WaitOption, drain
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.tables import show_age, show_duration


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, help="List workers; drain one.")
    group.callback()(workers)
    group.command("drain", short_help="Let one finish its work and exit.")(drain_worker)
    app.add_typer(group, name="workers")


def workers(
    context: typer.Context,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List workers, with their queues, what they hold and when they were last heard.

    \b
    Examples:
      rmhdag workers
      rmhdag workers --json
      rmhdag workers drain 0198f3c2 --wait 60
    """
    if context.invoked_subcommand is not None:
        return
    with connected(url, database_url, schema) as platform:
        lines = platform.client.workers()
    headers = ("WORKER", "HOST", "PROCESS", "STATE", "STARTED", "HEARTBEAT", "TASKS", "QUEUES")
    show_listing(
        "workers",
        lines,
        headers,
        lambda line: (
            line.worker_id,
            line.host,
            line.process_id,
            "draining" if line.draining else "working",
            show_age(line.started_at),
            f"{show_duration(line.silent_seconds)} ago",
            f"{line.tasks_held}/{line.slots}",
            ", ".join(line.queues),
        ),
        as_json=as_json,
        nothing="no worker is running; `rmhdag up` or `rmhdag worker --queue NAME` starts one",
    )


def drain_worker(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Id, or its first characters.")],
    wait_seconds: WaitOption = None,
    issued_by: AsOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make a worker claim no more tasks, finish or return its tasks within its stop time (30 s, or
    RMHDAG_WORKER_STOP_SECONDS), and exit with code 0. No attempt is used up.

    This works from any machine, and for workers over HTTP: the worker receives the request with its next heartbeat.
    Neither `rmhdag up` nor systemd with `Restart=on-failure` restarts a drained worker.

    \b
    Examples:
      rmhdag workers drain 0198f3c2
      rmhdag workers drain 0198f3c2 --wait 60
    """
    with connected(url, database_url, schema, name=issued_by) as platform:

        def ids() -> list[str]:
            return [line.worker_id for line in platform.client.workers()]

        drain("worker", worker, ids, platform.drain_worker, wait_seconds, as_json=as_json)
