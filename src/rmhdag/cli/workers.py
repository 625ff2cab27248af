"""`rmhdag workers`: who runs tasks, and which are alive."""

from __future__ import annotations

import typer

from rmhdag.cli.options import JsonOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say


def register(app: typer.Typer) -> None:
    app.command(short_help="List workers.")(workers)


def workers(as_json: JsonOption = False, database_url: UrlOption = None, schema: SchemaOption = None) -> None:
    """List workers, with their queues, what they hold and when they were last heard.

    \b
    Examples:
      rmhdag workers
      rmhdag workers --json
    """
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import lay_out, show_age, show_duration
    from rmhdag.store import views

    with connected(database_url, schema) as platform:
        lines = views.workers(platform.conn)
    if as_json:
        emit_json({"workers": [line._asdict() for line in lines]})
        return
    if not lines:
        say("no worker is there; `rmhdag up` or `rmhdag worker --queue NAME` starts one")
        return
    rows = [
        (
            line.worker_id,
            line.host,
            line.process_id,
            "draining" if line.draining else "working",
            show_age(line.started_at),
            show_duration(line.silent_seconds),
            f"{line.tasks_held}/{line.slots}",
            ", ".join(line.queues),
        )
        for line in lines
    ]
    emit(lay_out(("WORKER", "HOST", "PROCESS", "STATE", "STARTED", "SILENT", "TASKS", "QUEUES"), rows))
