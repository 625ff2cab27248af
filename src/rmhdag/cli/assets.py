"""`rmhdag assets`: what the platform has made, newest first, by platform, kind or status."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import AssetQuery
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import lay_out, show_age, show_status
from rmhdag.models.api.assets import AssetSummary
from rmhdag.models.assets import ApprovalState, AssetKind, ProcessingStatus
from rmhdag.workflow.problems import did_you_mean


def register(app: typer.Typer) -> None:
    app.command(short_help="List assets, newest first.")(assets)


def assets(
    platform_id: Annotated[
        str | None, typer.Option("--platform", metavar="ID", help="Only assets of this platform.")
    ] = None,
    refs: Annotated[
        list[str] | None,
        typer.Option(
            "--ref", metavar="NAME=VALUE", help="Only assets with this reference; if repeated, all must match."
        ),
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
    review: Annotated[
        str | None,
        typer.Option(
            "--review",
            metavar="STATE",
            help="Only assets whose newest review is pending_review, approved, rejected, revoked or superseded.",
        ),
    ] = None,
    deleted_too: Annotated[bool, typer.Option("--all", help="Include deleted assets.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of entries.")] = 20,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="CURSOR", help="Cursor of the next page, as printed by the previous one."),
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
      rmhdag assets --review pending_review
    """
    query = AssetQuery(
        platform_id=platform_id,
        kind=one_of(AssetKind, kind, "kind"),
        processing_status=one_of(ProcessingStatus, status, "status"),
        approval_state=one_of(ApprovalState, review, "state of a review"),
        refs=read_refs(refs or []),
        deleted_too=deleted_too,
        after=after,
        limit=limit,
    )
    with connected(url, database_url, schema, namespace=namespace) as platform:
        page, next_page = platform.assets(query)
    if as_json:
        emit_json({"assets": [line.model_dump() for line in page], "next": next_page})
        return
    if page:
        emit(describe(page))
    else:
        filtered = platform_id or refs or kind or status or review or after
        say("no asset matches; `rmhdag assets` lists all" if filtered else "no assets yet")
    if next_page:
        say(f"there are more: --after {next_page}")


def describe(lines: list[AssetSummary]) -> str:
    rows = [
        (
            line.asset_id,
            line.kind,
            "deleted" if line.deleted_at else show_status(line.processing_status),
            "" if line.approval_state == "none" else line.approval_state,
            line.latest_revision,
            line.current_revision or "",
            show_age(line.updated_at),
            line.platform_id,
            " ".join(f"{name}={value}" for name, value in sorted(line.platform_refs.items())),
        )
        for line in lines
    ]
    headers = ("ASSET", "KIND", "STATUS", "REVIEW", "NEWEST", "CURRENT", "CHANGED", "PLATFORM", "REFERENCES")
    return lay_out(headers, rows, right=("NEWEST", "CURRENT"))


def read_refs(words: list[str]) -> dict[str, str]:
    refs = {}
    for text in words:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise CommandFailed(f"{text!r} is not a reference", remedy="Write NAME=VALUE.", code=ExitCode.USAGE)
        refs[name] = value
    return refs


def one_of(choices: type[StrEnum], word: str | None, what: str) -> str | None:
    if word is None or word in set(choices):
        return word
    raise CommandFailed(f"there is no {what} {word!r}", remedy=did_you_mean(word, list(choices)), code=ExitCode.USAGE)
