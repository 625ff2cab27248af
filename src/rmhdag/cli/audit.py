"""`rmhdag audit`: who did what to keys, approvals, assets, workflows and the platform."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption


def register(app: typer.Typer) -> None:
    app.command(short_help="Show who did what to keys, assets, workflows and the platform.")(audit)


def audit(
    action: Annotated[
        str | None, typer.Option("--action", metavar="NAME", help="Only this action, as key.revoke, or kind, as key.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="TEXT", help="Only what was done to this.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="So many, newest first.")] = 50,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show the audit trail, newest first: keys made, rotated and revoked; approvals decided; assets deleted and rolled
    back; catalogue items removed; workflows retired; the schema migrated and roles granted.

    \b
    Examples:
      rmhdag audit
      rmhdag audit --action key --limit 200
      rmhdag audit --namespace north --json

    Against a server it needs the scope `admin`, for the key's namespace, or `platform`, for all namespaces.
    """
    from rmhdag.cli.listing import show_listing
    from rmhdag.cli.platform import connected
    from rmhdag.cli.tables import show_moment

    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = platform.audit(action=action, subject=subject, limit=limit)
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
        nothing="the audit trail has no such entry",
    )
