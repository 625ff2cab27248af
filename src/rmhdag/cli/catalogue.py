"""`rmhdag catalogue`: take items out of the STAC catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.cancel import checked_reason
from rmhdag.cli.doors import connected
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
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Remove items from the STAC catalogue.")
    group.callback()(catalogue)
    group.command("remove", short_help="Remove items from the catalogue.")(remove)
    app.add_typer(group, name="catalogue")


def catalogue() -> None:
    """Remove items from the STAC catalogue.

    \b
    Examples:
      rmhdag catalogue remove survey dem
    """


def remove(
    collection_id: Annotated[str, typer.Argument(metavar="COLLECTION", help="Id of a STAC collection.")],
    item_id: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="Id of an item in the collection.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all items of the collection.")] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Reason to record in the audit trail.")
    ] = None,
    dry_run: DryRunOption = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Remove an item, or all items of a collection, from the catalogue. The files and the collection stay. Items that
    belong to an asset are not removed: delete or roll back the asset instead. Exit code 6 if the item belongs to an
    asset.

    \b
    Examples:
      rmhdag catalogue remove survey dem --reason "wrong projection"
      rmhdag catalogue remove survey --all --dry-run
    """
    if (item_id is None) != everything:
        raise CommandFailed("name an item, or give --all for the whole collection", code=ExitCode.USAGE)
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.remove_from_catalogue(collection_id, item_id, checked_reason(reason), dry_run=dry_run)
    if as_json:
        emit_json(done.model_dump())
        return
    rest = f"; {done.kept} that belong to assets stay" if done.kept else ""
    would = "would be" if dry_run else "were" if done.removed != 1 else "was"
    items = "item" if done.removed == 1 else "items"
    say(f"{done.removed} {items} of {collection_id} {would} removed from the catalogue{rest}")
