"""`rmhdag workers`: who runs tasks, and which are alive."""

from __future__ import annotations

import typer

from rmhdag.cli.options import JsonOption, SchemaOption, ServerOption, UrlOption


def register(app: typer.Typer) -> None:
    app.command(short_help="List workers.")(workers)


def workers(
    as_json: JsonOption = False, url: ServerOption = None, database_url: UrlOption = None, schema: SchemaOption = None
) -> None:
    """List workers, with their queues, what they hold and when they were last heard.

    \b
    Examples:
      rmhdag workers
      rmhdag workers --json
    """
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
