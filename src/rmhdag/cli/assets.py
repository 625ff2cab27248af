"""`rmhdag assets`: what the platform has made, newest first, by platform, kind or status."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from rmhdag.models.api.assets import AssetSummary


def register(app: typer.Typer) -> None:
    app.command(short_help="List assets, newest first.")(assets)


def assets(
    platform_id: Annotated[str | None, typer.Option("--platform", metavar="ID", help="Only of this platform.")] = None,
    refs: Annotated[
        list[str] | None,
        typer.Option("--ref", metavar="NAME=VALUE", help="Only with this reference; all that are given must fit."),
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="raster, vector or dataset.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            "-s",
            metavar="STATUS",
            help="pending, processing, completed, failed, cancelled or superseded.",
        ),
    ] = None,
    deleted_too: Annotated[bool, typer.Option("--all", help="Also those that were deleted.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 20,
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="The next page, as the last one names it.")
    ] = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """List assets, newest first, with the status of their newest revision.

    \b
    Examples:
      rmhdag assets
      rmhdag assets --platform ddh --ref dataset_id=0038272
      rmhdag assets --status failed --json
    """
    from rmhdag.cli.platform import AssetQuery, connected
    from rmhdag.models.assets import AssetKind, ProcessingStatus

    query = AssetQuery(
        platform_id=platform_id,
        kind=one_of(AssetKind, kind, "kind"),
        processing_status=one_of(ProcessingStatus, status, "status"),
        refs=read_refs(refs or []),
        deleted_too=deleted_too,
        after=after,
        limit=limit,
    )
    with connected(url, database_url, schema, namespace=namespace) as platform:
        shown, next_page = platform.assets(query)
    if as_json:
        emit_json({"assets": [line.model_dump() for line in shown], "next": next_page})
        return
    if shown:
        emit(describe(shown))
    else:
        filtered = platform_id or refs or kind or status or after
        say("no asset is like that; `rmhdag assets` lists all" if filtered else "no assets yet")
    if next_page:
        say(f"there are more: --after {next_page}")


def describe(lines: list[AssetSummary]) -> str:
    from rmhdag.cli.tables import lay_out, show_age, show_status

    rows = [
        (
            line.asset_id,
            line.kind,
            "deleted" if line.deleted_at else show_status(line.processing_status),
            line.latest_revision,
            line.current_revision or "",
            show_age(line.updated_at),
            line.platform_id,
            " ".join(f"{name}={value}" for name, value in sorted(line.platform_refs.items())),
        )
        for line in lines
    ]
    headers = ("ASSET", "KIND", "STATUS", "NEWEST", "CURRENT", "CHANGED", "PLATFORM", "REFERENCES")
    return lay_out(headers, rows, right=("NEWEST", "CURRENT"))


def read_refs(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise CommandFailed(f"{text!r} is no reference", remedy="Write NAME=VALUE.", code=ExitCode.USAGE)
        found[name] = value
    return found


def one_of(known: type[StrEnum], word: str | None, what: str) -> str | None:
    if word is None or word in set(known):
        return word
    from rmhdag.workflow.problems import did_you_mean

    raise CommandFailed(f"there is no {what} {word!r}", remedy=did_you_mean(word, list(known)), code=ExitCode.USAGE)
