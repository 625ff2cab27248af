"""`rmhdag approvals`: what waits for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import say

SHOWN_MESSAGE = 60


def register(app: typer.Typer) -> None:
    app.command(short_help="List what waits for a person.")(approvals)


def approvals(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 100,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List approvals that wait for a decision now, longest first, with the command that decides each.

    \b
    Examples:
      rmhdag approvals
      rmhdag approvals --json
    """
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import cut, show_age

    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.approvals(limit=limit)
    show_listing(
        "approvals",
        lines,
        ("WAITING", "WORKFLOW", "APPROVERS", "MESSAGE", "DECIDE WITH"),
        lambda line: (
            show_age(line.waiting_since).removesuffix(" ago"),
            line.workflow_id,
            ", ".join(line.approvers) or "anybody",
            cut(line.message or "", SHOWN_MESSAGE),
            line.command,
        ),
        as_json=as_json,
        nothing="nothing waits for a decision",
    )
    if lines and not as_json:
        say("`reject` instead of `approve` rejects; --reason TEXT says why")
