"""`rmhdag promoted`: collections and items that are put in front, and the gallery."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say
from rmhdag.models.api.promoted import PromotedView

PromotedArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the promoted dataset, such as flood-maps.")]
OutsideOption = Annotated[bool, typer.Option("--outside", help="Only what the public may see.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        invoke_without_command=True, rich_markup_mode=None, help="List, promote and demote datasets; order the gallery."
    )
    group.callback()(promoted)
    group.command("list", short_help="List promoted datasets.")(list_promoted)
    group.command("promote", short_help="Promote a collection or an item.")(promote)
    group.command("demote", short_help="Demote a dataset.")(demote)
    group.command("gallery", short_help="Show the gallery, or set its order.")(gallery)
    app.add_typer(group, name="promoted")


def promoted(
    context: typer.Context,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Promote collections and items of the catalogue: with a title, tags, and a place in the gallery; alone it lists
    them.

    \b
    Examples:
      rmhdag promoted
      rmhdag promoted promote flood-maps floods --public --title "Flood maps"
    """
    if context.invoked_subcommand is None:
        list_promoted(False, None, namespace, as_json, url, database_url, schema)


def list_promoted(
    outside: OutsideOption = False,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="Only the dataset with this system role.")
    ] = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List promoted datasets by id, with warnings about what they refer to.

    \b
    Examples:
      rmhdag promoted list --outside
      rmhdag promoted list --role admin0_boundaries --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        lines = list(platform.client.promoted(outside=outside, system_role=role))
    show(lines, as_json=as_json, nothing="no promoted datasets")


def promote(
    promoted_id: PromotedArgument,
    collection_id: Annotated[str, typer.Argument(metavar="COLLECTION", help="Id of a STAC collection.")],
    item_id: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="Id of an item in the collection.")] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title to show.")] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="Description to show.")
    ] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag; repeatable.")] = None,
    gallery_order: Annotated[
        int | None, typer.Option("--gallery", metavar="N", min=1, max=10_000, help="Place in the gallery.")
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", metavar="ROLE", help="System role, such as admin0_boundaries.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Show it outside (default: restricted).")] = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Promote a collection, or one item of it. An id that exists is changed to what you give. The catalogue must have
    it; exit code 6 if its revision is not cleared for the public and you ask for --public.

    \b
    Examples:
      rmhdag promoted promote flood-maps floods --public --title "Flood maps" --gallery 1
      rmhdag promoted promote dem survey dem --tag elevation
    """
    fields: dict[str, Any] = {
        "title": title,
        "description": description,
        "tags": tags or [],
        "gallery_order": gallery_order,
        "system_role": role,
        "classification": "public" if public else "restricted",
    }
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.client.promote(promoted_id, collection_id, item_id, **fields)
    emit_json(done.model_dump()) if as_json else say(f"promoted {promoted_id}")


def demote(
    promoted_id: PromotedArgument,
    confirm_system: Annotated[
        bool, typer.Option("--confirm-system", help="Also demote a dataset that the platform relies on.")
    ] = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Demote a dataset: it is no longer put in front; the catalogue stays as it is. Exit code 6 if it has a system
    role and you do not give --confirm-system.

    \b
    Examples:
      rmhdag promoted demote flood-maps
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.client.demote(promoted_id, confirm_system=confirm_system)
    emit_json(done.model_dump()) if as_json else say(f"demoted {promoted_id}")


def gallery(
    promoted_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="All of the gallery, in its new order.")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Take everything out of the gallery.")] = False,
    outside: OutsideOption = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show the gallery in its order. With ids, the gallery has exactly these datasets, in this order.

    \b
    Examples:
      rmhdag promoted gallery
      rmhdag promoted gallery flood-maps dem
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        if promoted_ids or empty:
            lines = platform.client.order_gallery(promoted_ids or [])
        else:
            lines = platform.client.gallery(outside=outside)
    show(lines, as_json=as_json, nothing="the gallery is empty")


def show(lines: list[PromotedView], *, as_json: bool, nothing: str) -> None:
    show_listing(
        "promoted",
        lines,
        ("ID", "COLLECTION", "ITEM", "GALLERY", "ROLE", "CLASSIFICATION", "OUTSIDE", "TITLE", "WARNING"),
        lambda line: (
            line.promoted_id,
            line.collection_id,
            line.item_id or "",
            line.gallery_order or "",
            line.system_role or "",
            line.classification,
            "yes" if line.visible_outside else "no",
            line.title or "",
            "; ".join(line.warnings),
        ),
        as_json=as_json,
        nothing=nothing,
        right=("GALLERY",),
    )
