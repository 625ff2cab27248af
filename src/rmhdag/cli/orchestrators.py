"""`rmhdag orchestrators`: who advances jobs, and which are alive."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.draining import WaitOption, drain
from rmhdag.cli.options import AsOption, JsonOption, SchemaOption, ServerOption, UrlOption


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, help="List orchestrators; drain one.")
    group.callback()(orchestrators)
    group.command("drain", short_help="Let one finish and end.")(drain_orchestrator)
    app.add_typer(group, name="orchestrators")


def orchestrators(
    context: typer.Context,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List orchestrators, with the jobs they own and when they were last heard.

    \b
    Examples:
      rmhdag orchestrators
      rmhdag orchestrators --json
      rmhdag orchestrators drain 0198f3c2 --wait 60
    """
    if context.invoked_subcommand is not None:
        return
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import show_age, show_duration

    with connected(url, database_url, schema) as platform:
        lines = platform.orchestrators()
    headers = ("ORCHESTRATOR", "HOST", "PROCESS", "VERSION", "STATE", "STARTED", "SILENT", "JOBS")
    show_listing(
        "orchestrators",
        lines,
        headers,
        lambda line: (
            line.owner_id,
            line.host,
            line.process_id,
            line.version,
            "draining" if line.stopping else "working",
            show_age(line.started_at),
            show_duration(line.silent_seconds),
            line.jobs_owned,
        ),
        as_json=as_json,
        nothing="no orchestrator is there; `rmhdag up` or `rmhdag orchestrator` starts one",
        right=("JOBS",),
    )


def drain_orchestrator(
    orchestrator: Annotated[str, typer.Argument(metavar="ORCHESTRATOR", help="Its id, or how it begins.")],
    wait_seconds: WaitOption = None,
    issued_by: AsOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let an orchestrator hand its jobs over to the others, and end with exit code 0.

    It works from anywhere: the orchestrator hears it with its next heartbeat. Jobs of the only one wait until another
    one is started. `rmhdag up` does not start a drained orchestrator again; under systemd, `Restart=on-failure` does
    not either.

    \b
    Examples:
      rmhdag orchestrators drain 0198f3c2
      rmhdag orchestrators drain 0198f3c2 --wait 60
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, name=issued_by) as platform:

        def ids() -> list[str]:
            return [line.owner_id for line in platform.orchestrators()]

        drain("orchestrator", orchestrator, ids, platform.drain_orchestrator, wait_seconds, as_json=as_json)
