"""`rmhdag rollback`: an asset back to an earlier revision, as a new one."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.asset import AssetArgument
from rmhdag.cli.options import AsOption, JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say


def register(app: typer.Typer) -> None:
    app.command(short_help="Take an asset back to an earlier revision.")(rollback)


def rollback(
    asset_id: AssetArgument,
    revision: Annotated[
        int, typer.Argument(metavar="REVISION", min=1, max=2**31 - 1, help="A completed one, and not the current one.")
    ],
    issued_by: AsOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Take an asset back to an earlier revision: a new one gets its content, and the history stays. Exit code 6 if
    that revision is not completed, or is the current one.

    \b
    Examples:
      rmhdag rollback b8a9f715dbb64fd5c56e7783c6820a61 2
    """
    from rmhdag.cli.platform import connected

    with connected(url, database_url, schema, namespace=namespace, name=issued_by) as platform:
        made = platform.rollback(asset_id, revision)
    if as_json:
        emit_json(made.model_dump())
        return
    say(f"revision {made.revision} of asset {asset_id} has the content of revision {revision}")
