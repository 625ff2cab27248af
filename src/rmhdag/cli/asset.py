"""`rmhdag asset`: one asset with its revisions, and what the current one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json

if TYPE_CHECKING:
    from rmhdag.models.api.assets import AssetView, RevisionSummary

AssetArgument = Annotated[str, typer.Argument(metavar="ASSET", help="An asset's id.")]


def register(app: typer.Typer) -> None:
    app.command(short_help="Show an asset and its revisions.")(asset)


def asset(
    asset_id: AssetArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many revisions.")] = 20,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show an asset: whose it is, how it stands, its revisions, what the current one holds.

    \b
    Examples:
      rmhdag asset b8a9f715dbb64fd5c56e7783c6820a61
      rmhdag asset b8a9f715dbb64fd5c56e7783c6820a61 --json
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace) as platform:
        found = platform.asset(asset_id)
        revisions = platform.revisions(asset_id, limit)
    if as_json:
        emit_json({**found.model_dump(), "revisions": [one.model_dump() for one in revisions]})
        return
    emit(describe(found, revisions))


def describe(asset: AssetView, revisions: list[RevisionSummary]) -> str:
    from rmhdag.cli.data_errors import describe_warnings
    from rmhdag.cli.tables import lay_out, show_moment, show_status
    from rmhdag.cli.waiting import as_text

    facts: list[tuple[str, object]] = [
        ("asset", asset.asset_id),
        ("kind", asset.kind),
        ("platform", asset.platform_id),
        *[("reference", f"{name}={value}") for name, value in sorted(asset.platform_refs.items())],
        ("status", show_status(asset.processing_status)),
        ("current", f"revision {asset.current_revision}" if asset.current_revision else "no revision is completed"),
        ("content", asset.content_hash),
        ("deleted", f"{show_moment(asset.deleted_at)} by {asset.deleted_by}" if asset.deleted_at else None),
    ]
    if asset.current is not None:
        facts += [("warning", warning) for warning in describe_warnings(asset.current.warnings)]
    lines = [f"{name:<12} {value}\n" for name, value in facts if value]
    rows = [
        (
            one.revision,
            show_status(one.status),
            one.source,
            show_moment(one.created_at),
            one.created_by,
            (one.content_hash or "")[:16],
            one.job_id or "",
            " ".join((one.error_message or "").split()),
        )
        for one in revisions
    ]
    headers = ("REVISION", "STATUS", "SOURCE", "CREATED", "BY", "CONTENT", "JOB", "ERROR")
    lines.append("\n" + lay_out(headers, rows, right=("REVISION",)))
    if asset.current is not None and asset.current.outputs:
        lines.append("\noutputs\n" + as_text(asset.current.outputs))
    return "".join(lines)
