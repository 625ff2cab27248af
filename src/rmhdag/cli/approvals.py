"""`rmhdag approvals`: what waits for a person."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import say
from rmhdag.cli.tables import cut, show_age
from rmhdag.models.api.approvals import WaitingApproval

SHOWN_MESSAGE = 60


def register(app: typer.Typer) -> None:
    app.command(short_help="List approvals that wait for a decision.")(approvals)


def approvals(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of entries.")] = 100,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List what waits for a decision, longest first: approval nodes of jobs, and revisions under review. Each line has
    the command that decides, or says who can if you may not.

    \b
    Examples:
      rmhdag approvals
      rmhdag approvals --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(islice(platform.client.approvals(), limit))
        # Whose command it is, is only asked for if that decides something.
        name = platform.client.me().name if any(line.not_by for line in lines) else None
    show_listing(
        "approvals",
        lines,
        ("WAITING", "KIND", "WORKFLOW", "ABOUT", "APPROVERS", "MESSAGE", "DECIDE WITH"),
        lambda line: (
            show_age(line.waiting_since).removesuffix(" ago"),
            line.kind,
            line.workflow_id or "",
            describe_asset(line),
            ", ".join(line.approvers) or ("reviewers" if line.kind == "revision" else "anybody"),
            cut(line.message or "", SHOWN_MESSAGE),
            line.command if line.may_decide else describe_deciders(line, name),
        ),
        as_json=as_json,
        nothing="nothing waits for a decision",
    )
    if any(line.may_decide for line in lines) and not as_json:
        say("use `reject` to reject, and --reason TEXT to say why")


def describe_deciders(line: WaitingApproval, name: str | None) -> str:
    """For somebody who may not decide."""
    if name in line.not_by and not line.approvers:
        return "(another reviewer: you ordered it)"
    scopes = " or ".join(line.needs_scopes)
    names = f" of {' or '.join(line.approvers)}" if line.approvers else ""
    return f"(needs a key{names} with the scope {scopes})"


def describe_asset(line: WaitingApproval) -> str:
    """What is decided about, as its platform calls it."""
    refs = " ".join(f"{name}={value}" for name, value in sorted((line.platform_refs or {}).items()))
    return f"{line.platform_id} {refs}, revision {line.revision}" if line.platform_id else ""
