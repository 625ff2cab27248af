"""`rmhdag callbacks`: show callbacks and their outcomes; send one again."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import show_age
from rmhdag.models.callbacks import CallbackStatus


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        invoke_without_command=True, rich_markup_mode=None, help="Show callbacks and their outcomes; send one again."
    )
    group.callback()(callbacks)
    group.command("list", short_help="List callbacks.")(list_callbacks)
    group.command("redeliver", short_help="Send callbacks again.")(redeliver)
    app.add_typer(group, name="callbacks")


def callbacks(
    context: typer.Context,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show callbacks and what became of them; send them again; alone it lists the newest.

    \b
    Examples:
      rmhdag callbacks
      rmhdag callbacks list --status dead
      rmhdag callbacks redeliver 0198f3c27c8b7d3a9f20c4de51b6a7e8
    """
    if context.invoked_subcommand is None:
        list_callbacks(None, None, 100, namespace, as_json, url, database_url, schema)


def list_callbacks(
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="pending, delivered, dead or disabled.")
    ] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only callbacks of this job.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, metavar="N", help="Maximum number of entries.")
    ] = 100,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List callbacks, newest first: the URL, the number of tries, and the response.

    \b
    Examples:
      rmhdag callbacks list
      rmhdag callbacks list --status dead --json
    """
    if status is not None and status not in list(CallbackStatus):
        raise CommandFailed(
            f"--status: there is no status {status!r}",
            remedy=f"There are {', '.join(CallbackStatus)}.",
            code=ExitCode.USAGE,
        )
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(islice(platform.client.callbacks(status=status, job_id=job), limit))
    show_listing(
        "callbacks",
        lines,
        ("CALLBACK", "JOB", "STATUS", "TRIES", "ENDPOINT", "SINCE", "ANSWER"),
        lambda line: (
            line.callback_id,
            line.job_id,
            line.status,
            line.attempts,
            line.endpoint_url,
            show_age(line.created_at),
            line.last_error or line.last_status or "",
        ),
        as_json=as_json,
        nothing="no callbacks",
        right=("TRIES",),
    )


def redeliver(
    names: Annotated[
        list[str], typer.Argument(metavar="CALLBACK...", help="Callback ids, as shown by `rmhdag callbacks`.")
    ],
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Send callbacks again, whatever their outcome: with the same ids and bodies, and with the schedule from its
    beginning.

    \b
    Examples:
      rmhdag callbacks redeliver 0198f3c27c8b7d3a9f20c4de51b6a7e8
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        platform.redeliver(names)
        if not platform.orchestrators_alive():
            say("no orchestrator is running, so they wait until one is started")
    emit_json({"redelivered": names}) if as_json else emit("".join(f"{name}\n" for name in names))
