"""`rmhdag clients`: what the clients of the gateway may use, and how an administrator changes it."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from rmhdag.cli import client_identities
from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json
from rmhdag.models.api.clients import ClientChanges, ClientView

ClientArgument = Annotated[
    str, typer.Argument(metavar="CLIENT", help="Name of the client, which is the name of its keys.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Show and change what clients of the gateway may use."
    )
    group.command("list", short_help="List clients with quotas of their own.")(list_all)
    group.command("show", short_help="Show the quotas of a client.")(show)
    group.command("set", short_help="Change the quotas of a client, or disable it.")(change)
    client_identities.register(group)
    app.add_typer(group, name="clients")


def list_all(
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the clients of the gateway that have quotas of their own or are disabled. All others have the defaults.

    \b
    Examples:
      rmhdag clients list
      rmhdag clients list --namespace north --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(platform.client.clients())
    show_listing(
        "clients",
        lines,
        ("CLIENT", "STATE", "OWN QUOTAS", "CHANGED BY"),
        lambda line: (
            line.client_id,
            "active" if line.active else "disabled",
            ", ".join(f"{quota.name}={quota.limit}" for quota in line.quotas if quota.is_own) or "-",
            line.changed_by or "-",
        ),
        as_json=as_json,
        nothing="no client has quotas of its own; `rmhdag clients set CLIENT NAME=NUMBER` sets one",
    )


def show(
    client: ClientArgument,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show what a client of the gateway may use, and which limits were set for it.

    \b
    Examples:
      rmhdag clients show acme
      rmhdag clients show acme --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        print_client(platform.client.client(client), as_json=as_json)


def change(
    client: ClientArgument,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=NUMBER...", help="New limits; NAME=default resets one.")
    ] = None,
    active: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Let the client use the gateway, or refuse it.")
    ] = None,
    changed_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set limits for one client, or disable it; gateways follow within seconds. RMHDAG_CLIENT_QUOTAS sets the limits of
    all clients without limits of their own.

    \b
    Examples:
      rmhdag clients set acme requests_per_second=50 open_orders=200
      rmhdag clients set acme open_orders=default
      rmhdag clients set acme --disable
    """
    limits: dict[str, int | None] = {}
    for text in changes or []:
        name, _, value = text.partition("=")
        if value != "default" and not value.isdecimal():
            raise CommandFailed(
                f"{text!r} is not a quota", remedy="Write NAME=NUMBER or NAME=default.", code=ExitCode.USAGE
            )
        limits[name] = None if value == "default" else int(value)
    if not limits and active is None:
        raise CommandFailed(
            "nothing is to be changed", remedy="Name a quota, --enable or --disable.", code=ExitCode.USAGE
        )
    try:
        ClientChanges(quotas=limits, active=active)
    except ValidationError as error:
        raise CommandFailed(error.errors()[0]["msg"], code=ExitCode.USAGE) from None
    with connected(url, database_url, schema, namespace=namespace, name=changed_by) as platform:
        print_client(platform.client.change_client(client, limits, active=active), as_json=as_json)


def print_client(client: ClientView, *, as_json: bool) -> None:
    if as_json:
        emit_json(client.model_dump(mode="json"))
        return
    show_listing(
        "quotas",
        client.quotas,
        ("QUOTA", "LIMIT", "SET BY", "WHAT"),
        lambda line: (line.name, f"{line.limit:,}", "client" if line.is_own else "platform", line.what),
        as_json=False,
        nothing="no quotas",
        right=("LIMIT",),
    )
    if not client.active:
        typer.echo(f"{client.client_id} is disabled: the gateway refuses it", err=True)
