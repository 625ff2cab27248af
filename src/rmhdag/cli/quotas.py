"""`rmhdag quotas`: what a namespace may have of the platform, what it uses, and how the operator changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json

if TYPE_CHECKING:
    from rmhdag.models.api.quotas import QuotaList


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Quotas of namespaces.")
    group.command("show", short_help="Show quotas and what is used.")(show)
    group.command("set", short_help="Change quotas of a namespace.")(change)
    app.add_typer(group, name="quotas")


def show(
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show what the namespace may have, what it uses, and which limits were set for it.

    \b
    Examples:
      rmhdag quotas show
      rmhdag quotas show --namespace north --json
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace) as platform:
        print_quotas(platform.quotas(), as_json=as_json)


def change(
    target: Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace whose quotas change.")],
    changes: Annotated[
        list[str], typer.Argument(metavar="NAME=NUMBER...", help="The new limits; NAME=default takes one back.")
    ],
    changed_by: AsOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set limits for one namespace; they hold within a few seconds. On a server this needs the scope
    `platform`. RMHDAG_QUOTAS sets the limits of all namespaces that have none of their own.

    \b
    Examples:
      rmhdag quotas set north open_jobs=500 running_share=25
      rmhdag quotas set north open_jobs=default
    """
    from pydantic import ValidationError

    from rmhdag.cli.platform import connected
    from rmhdag.models.api.quotas import QuotaChanges

    wanted: dict[str, int | None] = {}
    for one in changes:
        name, _, value = one.partition("=")
        if value != "default" and not value.isdecimal():
            raise CommandFailed(
                f"{one!r} is not a quota", remedy="Write NAME=NUMBER or NAME=default.", code=ExitCode.USAGE
            )
        wanted[name] = None if value == "default" else int(value)
    try:
        body = QuotaChanges(quotas=wanted)
    except ValidationError as error:
        raise CommandFailed(error.errors()[0]["msg"], code=ExitCode.USAGE) from None
    with connected(url, database_url, schema, name=changed_by) as platform:
        print_quotas(platform.change_quotas(target, body), as_json=as_json)


def print_quotas(found: QuotaList, *, as_json: bool) -> None:
    from rmhdag.cli.listing import show_listing

    if as_json:
        emit_json(found.model_dump())
        return
    show_listing(
        "quotas",
        found.quotas,
        ("QUOTA", "USED", "LIMIT", "SET BY", "WHAT"),
        lambda line: (
            line.name,
            "" if line.used is None else f"{line.used:,}",
            f"{line.limit:,}",
            "namespace" if line.is_own else "platform",
            line.what,
        ),
        as_json=False,
        nothing="no quotas",
        right=("USED", "LIMIT"),
    )
