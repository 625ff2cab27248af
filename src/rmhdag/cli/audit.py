"""`rmhdag audit`: who did what to keys, approvals, assets, workflows and the platform."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.tables import show_moment


def register(app: typer.Typer) -> None:
    app.command(short_help="Show who changed keys, assets, workflows and the platform.")(audit)


def audit(
    action: Annotated[
        str | None,
        typer.Option("--action", metavar="NAME", help="Only this action, such as key.revoke, or kind, such as key."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="TEXT", help="Only entries about this object.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of entries.")] = 50,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show the audit trail, newest first: keys created, rotated and revoked; approvals decided; content
    approved, rejected and revoked; assets deleted and rolled back; platforms changed; catalogue items removed;
    workflows retired; the schema migrated and roles granted.

    \b
    Examples:
      rmhdag audit
      rmhdag audit --action key --limit 200
      rmhdag audit --namespace north --json

    On a server this needs the scope `admin` for the key's namespace, or `platform` for all namespaces.
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        entries = platform.client.audit(action=action, subject=subject)
        # A local caller is shown all namespaces, unless one is named.
        lines = list(islice((entry for entry in entries if namespace in (None, entry.namespace)), limit))
    show_listing(
        "entries",
        lines,
        ("AT", "NAMESPACE", "ACTOR", "ACTION", "SUBJECT", "REASON"),
        lambda line: (
            show_moment(line.at),
            line.namespace,
            line.actor,
            line.action,
            line.subject,
            line.reason or "",
        ),
        as_json=as_json,
        nothing="no entry of the audit trail matches",
    )
