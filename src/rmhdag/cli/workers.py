"""`rmhdag workers`: who runs tasks, and which are alive."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.draining import WaitOption, drain
from rmhdag.cli.options import AsOption, JsonOption, SchemaOption, ServerOption, UrlOption


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, help="List workers; drain one.")
    group.callback()(workers)
    group.command("drain", short_help="Let one finish and end.")(drain_worker)
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
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import show_age, show_duration

    with connected(url, database_url, schema) as platform:
        lines = platform.workers()
    headers = ("WORKER", "HOST", "PROCESS", "STATE", "STARTED", "SILENT", "TASKS", "QUEUES")
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
            show_duration(line.silent_seconds),
            f"{line.tasks_held}/{line.slots}",
            ", ".join(line.queues),
        ),
        as_json=as_json,
        nothing="no worker is there; `rmhdag up` or `rmhdag worker --queue NAME` starts one",
    )


def drain_worker(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="Its id, or how it begins.")],
    wait_seconds: WaitOption = None,
    issued_by: AsOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let a worker take no more tasks, finish or give back what it has within its stop time (30 s, or
    RMHDAG_WORKER_STOP_SECONDS), and end with exit code 0. No attempt is used up.

    It works from anywhere, also for workers over HTTP: the worker hears it with its next heartbeat. `rmhdag up` does
    not start a drained worker again; under systemd, `Restart=on-failure` does not either.

    \b
    Examples:
      rmhdag workers drain 0198f3c2
      rmhdag workers drain 0198f3c2 --wait 60
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, name=issued_by) as platform:

        def ids() -> list[str]:
            return [line.worker_id for line in platform.workers()]

        drain("worker", worker, ids, platform.drain_worker, wait_seconds, as_json=as_json)
