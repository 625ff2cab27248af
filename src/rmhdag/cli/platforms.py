"""`rmhdag platforms`: who may order assets, by which references, and whether their content is reviewed."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.refusals import missing
from rmhdag.cli.tables import lay_out_facts, show_moment
from rmhdag.models.api.platforms import PlatformBody, PlatformView

PlatformArgument = Annotated[str, typer.Argument(metavar="PLATFORM", help="Platform id.")]


class ListByDefault(TyperGroup):
    """`rmhdag platforms` is `rmhdag platforms list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=ListByDefault,
        rich_markup_mode=None,
        help="List, register and deactivate platforms.",
    )
    group.command("list", short_help="List the platforms that may order.")(list_platforms)
    group.command("show", short_help="Show a platform.")(show_platform)
    group.command("set", short_help="Register a platform, or replace its definition.")(set_platform)
    group.command("deactivate", short_help="Take no more orders of a platform.")(deactivate_platform)
    app.add_typer(group, name="platforms")


def list_platforms(
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the platforms that may order in the namespace, with their references.

    \b
    Examples:
      rmhdag platforms
      rmhdag platforms list --namespace north --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        platforms = platform.client.platforms()
    show_listing(
        "platforms",
        platforms,
        ("PLATFORM", "IDENTITY", "OPTIONAL", "VERSION", "REVIEW", "ACTIVE", "DEFINED IN"),
        lambda line: (
            line.platform_id,
            ",".join(line.identity_refs),
            ",".join(line.optional_refs),
            line.version_ref or "",
            line.review,
            "yes" if line.active else "no",
            line.namespace,
        ),
        as_json=as_json,
        nothing="no platforms",
    )


def show_platform(
    platform_id: PlatformArgument,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show a platform: the references that identify an asset, the one that names its version, and its review.

    \b
    Examples:
      rmhdag platforms show ddh
      rmhdag platforms show ddh --json
    """
    with (
        connected(url, database_url, schema, namespace=namespace) as platform,
        missing(f"there is no platform {platform_id!r}", "`rmhdag platforms` lists them."),
    ):
        print_platform(platform.client.platform(platform_id), as_json=as_json)


def set_platform(
    platform_id: PlatformArgument,
    refs: Annotated[
        list[str], typer.Option("--ref", metavar="NAME", help="Reference that identifies an asset; may be repeated.")
    ],
    optional_refs: Annotated[
        list[str] | None,
        typer.Option("--optional", metavar="NAME", help="Reference that may be left out; may be repeated."),
    ] = None,
    version_ref: Annotated[
        str | None, typer.Option("--version-ref", metavar="NAME", help="Reference that is the version label.")
    ] = None,
    review: Annotated[
        str, typer.Option("--review", metavar="RULE", help="Approval of its assets: none, required or four_eyes.")
    ] = "none",
    changed_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Register a platform, or replace its whole definition and activate it. In the namespace `default` this defines it
    for all namespaces without a definition of their own, and needs the scope `platform` on a server; elsewhere the
    scope `admin`. Exit code 6 if existing assets would no longer be found by their references.

    \b
    Examples:
      rmhdag platforms set geonode --ref dataset --optional layer
      rmhdag platforms set ddh --ref dataset_id --ref resource_id --version-ref version_id --review four_eyes
    """
    fields = {
        "identity_refs": refs,
        "optional_refs": optional_refs or [],
        "version_ref": version_ref,
        "review": review,
    }
    try:
        PlatformBody.model_validate(fields)
    except ValidationError as error:
        raise CommandFailed(error.errors()[0]["msg"], code=ExitCode.USAGE) from None
    with connected(url, database_url, schema, namespace=namespace, name=changed_by) as platform:
        view = platform.client.set_platform(
            platform_id, refs, optional_refs=optional_refs or [], version_ref=version_ref, review=review
        )
    print_platform(view, as_json=as_json)


def deactivate_platform(
    platform_id: PlatformArgument,
    changed_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Take no more orders of a platform. Its assets stay; `rmhdag platforms set` activates it again.

    \b
    Examples:
      rmhdag platforms deactivate geonode
      rmhdag platforms deactivate geonode --namespace north
    """
    with (
        connected(url, database_url, schema, namespace=namespace, name=changed_by) as platform,
        missing(f"there is no platform {platform_id!r}", "`rmhdag platforms` lists them."),
    ):
        view = platform.client.deactivate_platform(platform_id)
    emit_json(view.model_dump()) if as_json else say(f"platform {platform_id} takes no more orders; its assets stay")


def print_platform(view: PlatformView, *, as_json: bool) -> None:
    if as_json:
        emit_json(view.model_dump())
        return
    changed = f"{show_moment(view.updated_at)} by {view.updated_by}" if view.updated_by and view.updated_at else None
    facts: list[tuple[str, object]] = [
        ("platform", view.platform_id),
        *[("identity", name) for name in view.identity_refs],
        *[("optional", name) for name in view.optional_refs],
        ("version", view.version_ref),
        ("review", view.review),
        ("active", "yes" if view.active else "no"),
        ("defined in", view.namespace),
        ("changed", changed),
    ]
    emit(lay_out_facts(((name, value) for name, value in facts if value), 12))
