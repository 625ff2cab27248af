"""`rmhdag asset`: one asset with its revisions, and what the current one is; delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rmhdag.cli.options import (
    AsOption,
    DryRunOption,
    JsonOption,
    NamespaceOption,
    SchemaOption,
    ServerOption,
    UrlOption,
)
from rmhdag.cli.output import emit, emit_json, say, show_json

if TYPE_CHECKING:
    from rmhdag.models.api.assets import AssetView, RevisionSummary

AssetArgument = Annotated[str, typer.Argument(metavar="ASSET", help="An asset's id.")]


# Longer texts and nested values of outputs are left to --json: a STAC item alone has some 200 lines.
MOST_CHARACTERS = 80


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
        help="Show an asset and its revisions, or delete it. `rmhdag asset ID` shows it.",
    )
    group.command("show", short_help="Show an asset and its revisions.")(show_asset)
    group.command("delete", short_help="No longer show an asset, nor its catalogue record.")(delete_asset)
    app.add_typer(group, name="asset")


def show_asset(
    asset_id: AssetArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many revisions.")] = 20,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show an asset: whose it is, how it stands, its revisions, what the current one holds. --json has all of it.

    \b
    Examples:
      rmhdag asset b8a9f715dbb64fd5c56e7783c6820a61
      rmhdag asset show b8a9f715dbb64fd5c56e7783c6820a61 --json
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace) as platform:
        found = platform.asset(asset_id)
        revisions = platform.revisions(asset_id, limit)
    if as_json:
        emit_json({**found.model_dump(), "revisions": [one.model_dump() for one in revisions]})
        return
    emit(describe(found, revisions))


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
    """No longer show an asset, and take its items out of the catalogue. Files, revisions and history stay, and a new
    order for it brings it back. Exit code 6 while it is being processed.

    \b
    Examples:
      rmhdag asset delete b8a9f715dbb64fd5c56e7783c6820a61
      rmhdag asset delete b8a9f715dbb64fd5c56e7783c6820a61 --json
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        there = platform.asset(asset_id)
        if dry_run:
            emit_json({**there.model_dump(), "dry_run": True}) if as_json else say(
                f"{name_of(there)} would be deleted; nothing was changed (--dry-run)"
            )
            return
        deleted = platform.delete_asset(asset_id)
    emit_json(deleted.model_dump()) if as_json else say(
        f"deleted {name_of(deleted)}; its files and history stay, and a new order for it brings it back"
    )


def name_of(asset: AssetView) -> str:
    refs = " ".join(f"{name}={value}" for name, value in sorted(asset.platform_refs.items()))
    return f"asset {asset.asset_id} ({asset.platform_id} {refs}, {asset.latest_revision} revisions)"


def describe(asset: AssetView, revisions: list[RevisionSummary]) -> str:
    from rmhdag.cli.data_errors import describe_warnings
    from rmhdag.cli.tables import lay_out, lay_out_facts, show_moment, show_status

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
    lines = [lay_out_facts(((name, value) for name, value in facts if value), 12)]
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
    made = asset.current.made_by if asset.current is not None else None
    if made is not None:
        what = f"{made.workflow_id} v{made.workflow_version} for {made.submitted_by}"
        given = " ".join(f"{name}={in_short(value)}" for name, value in made.input_params.items())
        lines.append("\n" + lay_out_facts([("made by", what), *([("with", given)] if given else [])], 12))
    if asset.current is not None and asset.current.outputs:
        shown = [(name, in_short(value)) for name, value in asset.current.outputs.items()]
        lines.append("\n" + lay_out(("OUTPUT", "VALUE"), shown))
        if any(is_long(value) for value in asset.current.outputs.values()):
            lines.append("(--json shows outputs in full)\n")
    return "".join(lines)


def is_long(value: Any) -> bool:
    return len(written(value)) > MOST_CHARACTERS


def in_short(value: Any) -> str:
    """A value in one line; of one that is too long, what kind of thing it is."""
    if not is_long(value):
        return written(value)
    if isinstance(value, dict):
        named = [f"{name} {value[name]}" for name in ("type", "id", "path", "href") if isinstance(value.get(name), str)]
        members = "1 member" if len(value) == 1 else f"{len(value)} members"
        return cut_short(", ".join([*named, f"{{{members}}}"]))
    if isinstance(value, list):
        return f"[{len(value)} items]"
    return cut_short(written(value))


def written(value: Any) -> str:
    return value if isinstance(value, str) else show_json(value)


def cut_short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
