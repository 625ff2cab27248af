"""`rmhdag asset`: one asset with its revisions, and what the current one is; delete it."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rmhdag.cli import asset_reviews
from rmhdag.cli.asset_reviews import AssetArgument
from rmhdag.cli.data_errors import describe_warnings
from rmhdag.cli.doors import connected
from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.short_values import in_short, lay_out_values
from rmhdag.cli.tables import lay_out, lay_out_facts, show_moment, show_status
from rmhdag.models.api.assets import AssetView, Lineage, RevisionSummary

NEIGHBOURS_SHOWN = 10


class ShowByDefault(TyperGroup):
    """`rmhdag asset ID` is `rmhdag asset show ID`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=ShowByDefault,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Show an asset, decide about a revision, or delete it. `rmhdag asset ID` shows it.",
    )
    group.command("show", short_help="Show an asset and its revisions.")(show_asset)
    asset_reviews.register(group)
    group.command("delete", short_help="Delete an asset and its catalogue record.")(delete_asset)
    app.add_typer(group, name="asset")


def show_asset(
    asset_id: AssetArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of revisions.")] = 20,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show an asset: its platform and references, status, revisions, what the current revision was made from, and its
    content. --json shows all details.

    \b
    Examples:
      rmhdag asset b8a9f715dbb64fd5c56e7783c6820a61
      rmhdag asset show b8a9f715dbb64fd5c56e7783c6820a61 --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        asset = platform.asset(asset_id)
        revisions = list(islice(platform.client.revisions(asset_id), limit))
        current = asset.current_revision
        lineage = None if current is None else platform.client.lineage(asset_id, current)
    if as_json:
        emit_json(
            {
                **asset.model_dump(),
                "sources": [] if lineage is None else [source.model_dump() for source in lineage.sources],
                "descendants": [] if lineage is None else [user.model_dump() for user in lineage.descendants],
                "revisions": [revision.model_dump() for revision in revisions],
            }
        )
        return
    emit(describe(asset, revisions, lineage))


def delete_asset(
    asset_id: AssetArgument,
    dry_run: DryRunOption = False,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Delete an asset and remove its items from the catalogue. Files, revisions and history stay, and a new order
    brings it back. Exit code 6 while it is being processed.

    \b
    Examples:
      rmhdag asset delete b8a9f715dbb64fd5c56e7783c6820a61
      rmhdag asset delete b8a9f715dbb64fd5c56e7783c6820a61 --json
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        there = platform.asset(asset_id)
        if dry_run:
            emit_json({**there.model_dump(), "dry_run": True}) if as_json else say(
                f"{name_of(there)} would be deleted; nothing was changed (--dry-run)"
            )
            return
        deleted = platform.delete_asset(asset_id)
    emit_json(deleted.model_dump()) if as_json else say(
        f"deleted {name_of(deleted)}; its files and history stay, and a new order brings it back"
    )


def name_of(asset: AssetView) -> str:
    refs = " ".join(f"{name}={value}" for name, value in sorted(asset.platform_refs.items()))
    revisions = "1 revision" if asset.latest_revision == 1 else f"{asset.latest_revision} revisions"
    return f"asset {asset.asset_id} ({asset.platform_id} {refs}, {revisions})"


def describe_review(asset: AssetView, revisions: list[RevisionSummary]) -> list[tuple[str, object]]:
    """The newest review: its state, who decided, why. Nothing for an asset that needs no approval."""
    newest = next((revision for revision in revisions if revision.review_state == asset.approval_state), None)
    if asset.approval_state == "none" or newest is None:
        return []
    text = f"revision {newest.revision} is {newest.review_state}"
    if newest.decided_at is not None:
        text += f" by {newest.decided_by} at {show_moment(newest.decided_at)}"
    facts: list[tuple[str, object]] = [("review", text), ("clearance", asset.classification)]
    return [*facts, ("reason", " ".join(newest.decision_reason.split()))] if newest.decision_reason else facts


def review_of(revision: RevisionSummary) -> str:
    if revision.review_state == "none":
        return ""
    return f"{revision.review_state} {'' if revision.clearance == 'undecided' else revision.clearance}".rstrip()


def describe_origin(asset: AssetView, lineage: Lineage | None) -> list[tuple[str, str]]:
    """Which job made the current revision, and from what."""
    origin = asset.current.made_by if asset.current is not None else None
    facts = []
    if origin is not None:
        facts.append(("made by", f"{origin.workflow_id} v{origin.workflow_version} for {origin.submitted_by}"))
        params = " ".join(f"{name}={in_short(value)}" for name, value in origin.input_params.items())
        facts += [("with", params)] if params else []
    return [*facts, *([] if lineage is None else neighbours_of(lineage))]


def neighbours_of(lineage: Lineage) -> list[tuple[str, str]]:
    """What a revision was made from, and what was made from it."""
    sources = [
        f"{source.source_url or f'asset {source.source_asset_id}, revision {source.source_revision}'} ({source.role})"
        for source in lineage.sources
    ]
    users = [f"asset {user.asset_id}, revision {user.revision} ({user.role})" for user in lineage.descendants]
    return [
        (name, text if number < NEIGHBOURS_SHOWN else f"and {len(texts) - NEIGHBOURS_SHOWN} more (--json)")
        for name, texts in (("made from", sources), ("used for", users))
        for number, text in enumerate(texts[: NEIGHBOURS_SHOWN + 1])
    ]


def describe(asset: AssetView, revisions: list[RevisionSummary], lineage: Lineage | None = None) -> str:
    nothing_current = "nothing is left to serve" if asset.unpublishings else "no revision is completed"
    facts: list[tuple[str, object]] = [
        ("asset", asset.asset_id),
        ("kind", asset.kind),
        ("platform", asset.platform_id),
        *[("reference", f"{name}={value}") for name, value in sorted(asset.platform_refs.items())],
        ("status", show_status(asset.processing_status)),
        ("current", f"revision {asset.current_revision}" if asset.current_revision else nothing_current),
        ("version", asset.latest_version),
        *describe_review(asset, revisions),
        ("content", asset.content_hash),
        ("deleted", f"{show_moment(asset.deleted_at)} by {asset.deleted_by}" if asset.deleted_at else None),
    ]
    if asset.current is not None:
        facts += [("warning", warning) for warning in describe_warnings(asset.current.warnings)]
    lines = [lay_out_facts(((name, value) for name, value in facts if value), 12)]
    has_unpublished = any(revision.unpublished_at for revision in revisions)
    rows = [
        (
            revision.revision,
            show_status(revision.status),
            revision.source,
            review_of(revision),
            revision.version_label or "",
            show_moment(revision.created_at),
            revision.created_by,
            (revision.content_hash or "")[:16],
            revision.job_id or "",
            " ".join((revision.error_message or "").split()),
            *([show_moment(revision.unpublished_at) if revision.unpublished_at else ""] if has_unpublished else []),
        )
        for revision in revisions
    ]
    headers = ["REVISION", "STATUS", "SOURCE", "REVIEW", "VERSION", "CREATED", "BY", "CONTENT", "JOB", "ERROR"]
    headers += ["UNPUBLISHED"] if has_unpublished else []
    lines.append("\n" + lay_out(headers, rows, right=("REVISION",)))
    if asset.versions:
        versions = [
            (line.version_label, line.revision, line.status, line.review_state, "yes" if line.served else "")
            for line in asset.versions
        ]
        lines.append(
            "\n" + lay_out(("VERSION", "REVISION", "STATUS", "REVIEW", "SERVED"), versions, right=("REVISION",))
        )
    origins = describe_origin(asset, lineage)
    if origins:
        lines.append("\n" + lay_out_facts(origins, 12))
    if asset.current is not None and asset.current.outputs:
        lines.append("\n" + lay_out_values(asset.current.outputs))
    return "".join(lines)
