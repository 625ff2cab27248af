"""`rmhdag catalogue`: take items out of the STAC catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.cancel import checked_reason
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit_json, say


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Take items out of the STAC catalogue.")
    group.callback()(catalogue)
    group.command("remove", short_help="Take items out of the catalogue.")(remove)
    app.add_typer(group, name="catalogue")


def catalogue() -> None:
    """Take items out of the STAC catalogue.

    \b
    Examples:
      rmhdag catalogue remove survey dem
    """


def remove(
    collection_id: Annotated[str, typer.Argument(metavar="COLLECTION", help="The id of a STAC collection.")],
    item_id: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="The id of an item of it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All items of the collection.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Kept in the audit records.")] = None,
    dry_run: DryRunOption = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Take an item, or all items of a collection, out of the catalogue. Files stay, and so does the collection.
    Items that an asset shows stay as well: delete or roll back the asset. Exit code 6 if the item is such a one.

    \b
    Examples:
      rmhdag catalogue remove survey dem --reason "wrong projection"
      rmhdag catalogue remove survey --all --dry-run
    """
    from rmhdag.cli.platform import connected

    if (item_id is None) != everything:
        raise CommandFailed("name an item, or give --all for the whole collection", code=ExitCode.USAGE)
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.remove_from_catalogue(collection_id, item_id, checked_reason(reason), dry_run=dry_run)
    if as_json:
        emit_json(done.model_dump())
        return
    kept = f"; {done.kept} that assets show stay" if done.kept else ""
    would = "would be" if dry_run else "were" if done.removed != 1 else "was"
    items = "item" if done.removed == 1 else "items"
    say(f"{done.removed} {items} of {collection_id} {would} taken out of the catalogue{kept}")
