"""`rmhdag orchestrators`: who advances jobs, and which are alive."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.draining import WaitOption, drain
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.tables import show_age, show_duration


def register(app: typer.Typer) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, help="List orchestrators; drain one.")
    group.callback()(orchestrators)
    group.command("drain", short_help="Let one finish its work and exit.")(drain_orchestrator)
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
    with connected(url, database_url, schema) as platform:
        lines = platform.client.orchestrators()
    headers = ("ORCHESTRATOR", "HOST", "PROCESS", "VERSION", "STATE", "STARTED", "HEARTBEAT", "JOBS")
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
            f"{show_duration(line.silent_seconds)} ago",
            line.jobs_owned,
        ),
        as_json=as_json,
        nothing="no orchestrator is running; `rmhdag up` or `rmhdag orchestrator` starts one",
        right=("JOBS",),
    )


def drain_orchestrator(
    orchestrator: Annotated[str, typer.Argument(metavar="ORCHESTRATOR", help="Id, or its first characters.")],
    wait_seconds: WaitOption = None,
    issued_by: AsOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Make an orchestrator hand its jobs over to the others and exit with code 0.

    This works from any machine: the orchestrator receives the request with its next heartbeat. If it is the only one,
    its jobs wait until another is started. Neither `rmhdag up` nor systemd with `Restart=on-failure` restarts a drained
    orchestrator.

    \b
    Examples:
      rmhdag orchestrators drain 0198f3c2
      rmhdag orchestrators drain 0198f3c2 --wait 60
    """
    with connected(url, database_url, schema, name=issued_by) as platform:

        def ids() -> list[str]:
            return [line.owner_id for line in platform.client.orchestrators()]

        drain("orchestrator", orchestrator, ids, platform.drain_orchestrator, wait_seconds, as_json=as_json)
