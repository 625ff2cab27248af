"""`rmhdag quotas`: what a namespace may have of the platform, what it uses, and how the operator changes it."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json
from rmhdag.models.api.quotas import QuotaChanges, QuotaList


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show and change the quotas of namespaces.")
    group.command("show", short_help="Show quotas and current use.")(show)
    group.command("set", short_help="Change the quotas of a namespace.")(change)
    app.add_typer(group, name="quotas")


def show(
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show the limits of the namespace, its current use, and which limits were set for it.

    \b
    Examples:
      rmhdag quotas show
      rmhdag quotas show --namespace north --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        print_quotas(platform.client.quotas(), as_json=as_json)


def change(
    target: Annotated[str, typer.Argument(metavar="NAMESPACE", help="Namespace to change.")],
    changes: Annotated[
        list[str], typer.Argument(metavar="NAME=NUMBER...", help="New limits; NAME=default resets one.")
    ],
    changed_by: AsOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Set limits for one namespace; they take effect within a few seconds. On a server this needs the scope `platform`.
    RMHDAG_QUOTAS sets the limits of all namespaces without limits of their own.

    \b
    Examples:
      rmhdag quotas set north open_jobs=500 running_share=25
      rmhdag quotas set north open_jobs=default
    """
    quotas: dict[str, int | None] = {}
    for word in changes:
        name, _, value = word.partition("=")
        if value != "default" and not value.isdecimal():
            raise CommandFailed(
                f"{word!r} is not a quota", remedy="Write NAME=NUMBER or NAME=default.", code=ExitCode.USAGE
            )
        quotas[name] = None if value == "default" else int(value)
    try:
        body = QuotaChanges(quotas=quotas)
    except ValidationError as error:
        raise CommandFailed(error.errors()[0]["msg"], code=ExitCode.USAGE) from None
    with connected(url, database_url, schema, name=changed_by) as platform:
        print_quotas(platform.client.change_quotas(target, body.quotas), as_json=as_json)


def print_quotas(quotas: QuotaList, *, as_json: bool) -> None:
    if as_json:
        emit_json(quotas.model_dump())
        return
    show_listing(
        "quotas",
        quotas.quotas,
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
