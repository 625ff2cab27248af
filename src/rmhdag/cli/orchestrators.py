"""`rmhdag orchestrators`: who advances jobs, and which are alive."""

from __future__ import annotations

import typer

from rmhdag.cli.options import JsonOption, SchemaOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say


def register(app: typer.Typer) -> None:
    app.command(short_help="List orchestrators.")(orchestrators)


def orchestrators(as_json: JsonOption = False, database_url: UrlOption = None, schema: SchemaOption = None) -> None:
    """List orchestrators, with the jobs they own and when they were last heard.

    \b
    Examples:
      rmhdag orchestrators
      rmhdag orchestrators --json
    """
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import lay_out, show_age, show_duration
    from rmhdag.store import views

    with connected(database_url, schema) as platform:
        lines = views.orchestrators(platform.conn)
    if as_json:
        emit_json({"orchestrators": [line._asdict() for line in lines]})
        return
    if not lines:
        say("no orchestrator is there; `rmhdag up` or `rmhdag orchestrator` starts one")
        return
    rows = [
        (
            line.owner_id,
            line.host,
            line.process_id,
            line.version,
            show_age(line.started_at),
            show_duration(line.silent_seconds),
            line.jobs_owned,
        )
        for line in lines
    ]
    headers = ("ORCHESTRATOR", "HOST", "PROCESS", "VERSION", "STARTED", "SILENT", "JOBS")
    emit(lay_out(headers, rows, right=("JOBS",)))
