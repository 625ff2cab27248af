"""`rmhdag unpublish`: delete the files of a revision or of an asset, and never serve it again."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.asset_reviews import AssetArgument
from rmhdag.cli.cancel import checked_reason
from rmhdag.cli.doors import connected
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import lay_out, plural, show_bytes
from rmhdag.models.api.assets import UnpublishAnswer


def register(app: typer.Typer) -> None:
    app.command(short_help="Delete the files of an asset or revision.")(unpublish)


def unpublish(
    asset_id: AssetArgument,
    revision: Annotated[
        int | None,
        typer.Option(
            "--revision", metavar="N", min=1, max=2**31 - 1, help="Only this revision (default: all revisions)."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run/--no-dry-run", help="Show what would be deleted and change nothing (the default)."),
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Same as --no-dry-run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also unpublish approved content, which revokes it.")] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Reason to record in the audit trail.")
    ] = None,
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Unpublish a revision, or all revisions of an asset: remove its items from the catalogue and delete its files.
    Files that other revisions or jobs have too stay. Without --no-dry-run the command only shows what would be deleted.
    Exit code 6 for approved content with --no-dry-run but without --force, and while the asset is being processed.

    \b
    Examples:
      rmhdag unpublish b8a9f715dbb64fd5c56e7783c6820a61
      rmhdag unpublish b8a9f715dbb64fd5c56e7783c6820a61 --revision 2 --no-dry-run --reason "wrong area"
    """
    is_preview = dry_run and not yes
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        done = platform.unpublish(asset_id, revision, dry_run=is_preview, force=force, reason=checked_reason(reason))
        if done.status == "pending" and not platform.orchestrators_alive():
            say("no orchestrator is running, so the files stay until one is started")
    if as_json:
        emit_json(done.model_dump())
        return
    if done.files or done.items or done.tables:
        rows: list[tuple[object, ...]] = [
            (
                part.revision,
                "file",
                f"{part.zone}/{part.container}/{part.path}",
                show_bytes(part.size_bytes),
                part.shared_with or "",
            )
            for part in done.files
        ]
        rows += [(part.revision, "item", f"{part.collection_id}/{part.item_id}", "", "") for part in done.items]
        rows += [("", "table", name, "", "") for name in done.tables]
        emit(lay_out(("REVISION", "WHAT", "NAME", "SIZE", "STAYS FOR"), rows, right=("REVISION", "SIZE")))
    say(describe(done))
    if done.dry_run and done.approved_revisions:
        names = ", ".join(map(str, done.approved_revisions))
        subject = f"revision {names} is" if len(done.approved_revisions) == 1 else f"revisions {names} are"
        say(f"{subject} approved: to unpublish it takes --force, which revokes the approval")
    for notice in done.notices:
        say(notice)


def describe(done: UnpublishAnswer) -> str:
    if done.status == "nothing_left":
        return f"nothing of asset {done.asset_id} is left to unpublish"
    names = ", ".join(map(str, done.revisions))
    what = f"revision {names}" if len(done.revisions) == 1 else f"revisions {names}"
    parts = [f"{plural(done.file_count, 'file')} ({show_bytes(done.size_bytes)})", plural(done.item_count, "item")]
    if done.tables:
        parts.append(plural(len(done.tables), "table"))
    files = f"{', '.join(parts[:-1])} and {parts[-1]}"
    rest = f"; files that stay because others have them: {done.shared_file_count}" if done.shared_file_count else ""
    if done.dry_run:
        words = "--no-dry-run --force" if done.approved_revisions else "--no-dry-run"
        return f"{what} of asset {done.asset_id} would lose {files}{rest}; nothing was changed ({words} does it)"
    return f"unpublished {what} of asset {done.asset_id}: {files}{rest}"
