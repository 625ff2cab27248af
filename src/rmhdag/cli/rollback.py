"""`rmhdag rollback`: an asset back to an earlier revision, as a new one."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.asset_reviews import AssetArgument
from rmhdag.cli.doors import connected
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say


def register(app: typer.Typer) -> None:
    app.command(short_help="Restore an earlier revision of an asset.")(rollback)


def rollback(
    asset_id: AssetArgument,
    revision: Annotated[
        int,
        typer.Argument(
            metavar="REVISION", min=1, max=2**31 - 1, help="A completed revision that is not the current one."
        ),
    ],
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Restore an earlier revision of an asset: a new revision gets its content, and the history stays. Exit code 6 if
    that revision is not completed, or is already current.

    \b
    Examples:
      rmhdag rollback b8a9f715dbb64fd5c56e7783c6820a61 2
    """
    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        view = platform.rollback(asset_id, revision)
    if as_json:
        emit_json(view.model_dump())
        return
    say(f"revision {view.revision} of asset {asset_id} has the content of revision {revision}")
