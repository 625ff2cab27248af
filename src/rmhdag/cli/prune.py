"""`rmhdag prune`: what retention would delete, and deleting it now."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from rmhdag.cli.confirmation import confirm
from rmhdag.cli.doors import connected
from rmhdag.cli.options import DryRunOption, JsonOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit, emit_json, say
from rmhdag.cli.tables import lay_out
from rmhdag.models.api.retention import PrunePreview


def register(app: typer.Typer) -> None:
    app.command(short_help="Delete data past its retention; --dry-run shows what and why.")(prune)


def prune(
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Delete data past its retention now, in all namespaces; orchestrators do the same by themselves within minutes.
    Assets, their revisions and their files are never deleted. Needs the scope `platform`.

    \b
    Examples:
      rmhdag prune --dry-run
      RMHDAG_RETENTION_DAYS=365 rmhdag prune --dry-run
      rmhdag prune --yes --json

    RMHDAG_RETENTION_DAYS, RMHDAG_RETENTION_HISTORY_DAYS and RMHDAG_RETENTION_PAYLOAD_DAYS set how long data is kept.
    With a local database the values of this command apply, over HTTP those of the server. docs/retention.md lists all
    tables.
    """
    with connected(url, database_url, schema) as platform:
        if dry_run or not yes:
            preview = platform.client.preview_retention()
            if dry_run and as_json:
                emit_json({**preview.model_dump(), "dry_run": True})
            else:
                emit(describe(preview))
            if dry_run:
                say("nothing was deleted (--dry-run)")
                return
            if not preview.tables:
                emit_json({"deleted": {}, "has_more": False}) if as_json else say("there is nothing to delete")
                return
            confirm("Delete these rows?", "deleting these rows waits for")
        deleted: Counter[str] = Counter()
        while True:
            done = platform.client.prune()
            deleted.update(done.deleted)
            # What is left without progress is in use; orchestrators come back to it.
            if not done.has_more or not done.deleted:
                break
    if as_json:
        emit_json({"deleted": dict(sorted(deleted.items())), "has_more": done.has_more})
        return
    for table, rows in sorted(deleted.items()):
        emit(f"{rows:>10,}  {table}\n")
    say(f"deleted {deleted.total():,} rows" if deleted else "there was nothing to delete")


def describe(preview: PrunePreview) -> str:
    def number(count: int, is_complete: bool) -> str:
        return f"{count:,}" if is_complete else f"{count:,} or more"

    rows = [(number(line.rows, line.is_complete), line.table, line.reason, line.setting) for line in preview.tables]
    stays = [(number(line.jobs, line.is_complete), line.reason) for line in preview.kept]
    parts = [lay_out(("ROWS", "TABLE", "WHY", "SETTING"), rows, right=("ROWS",)) if rows else "nothing to delete\n"]
    if stays:
        parts.append("\n" + lay_out(("JOBS THAT STAY", "WHY"), stays, right=("JOBS THAT STAY",)))
    return "".join(parts)
