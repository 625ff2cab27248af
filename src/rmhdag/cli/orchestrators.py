"""`rmhdag orchestrators`: who advances jobs, and which are alive."""

from __future__ import annotations

import typer

from rmhdag.cli.options import JsonOption, SchemaOption, ServerOption, UrlOption


def register(app: typer.Typer) -> None:
    app.command(short_help="List orchestrators.")(orchestrators)


def orchestrators(
    as_json: JsonOption = False, url: ServerOption = None, database_url: UrlOption = None, schema: SchemaOption = None
) -> None:
    """List orchestrators, with the jobs they own and when they were last heard.

    \b
    Examples:
      rmhdag orchestrators
      rmhdag orchestrators --json
    """
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import show_age, show_duration

    with connected(url, database_url, schema) as platform:
        lines = platform.orchestrators()
    headers = ("ORCHESTRATOR", "HOST", "PROCESS", "VERSION", "STARTED", "SILENT", "JOBS")
    show_listing(
        "orchestrators",
        lines,
        headers,
        lambda line: (
            line.owner_id,
            line.host,
            line.process_id,
            line.version,
            show_age(line.started_at),
            show_duration(line.silent_seconds),
            line.jobs_owned,
        ),
        as_json=as_json,
        nothing="no orchestrator is there; `rmhdag up` or `rmhdag orchestrator` starts one",
        right=("JOBS",),
    )
