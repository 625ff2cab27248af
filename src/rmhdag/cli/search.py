"""`rmhdag search`: anything by its id or name."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption


def register(app: typer.Typer) -> None:
    app.command(short_help="Find jobs, nodes, assets and workflows by id or name.")(search)


def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The beginning of an id, JOB/NODE, or a part of a name.")],
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Find jobs, nodes, tasks, requests, assets and workflows by the beginning of their id, or by a name: of a
    workflow, node, submitter, correlation or platform reference.

    \b
    Examples:
      rmhdag search 01a1ebc4
      rmhdag search raster
      rmhdag search fan_out --json
    """
    with connected(url, database_url, schema, namespace=namespace) as platform:
        hits = platform.client.search(text)
    show_listing(
        "hits",
        hits,
        ("KIND", "ID", "NAME", "STATUS", "NOTE"),
        lambda hit: (hit.kind, hit.id, hit.title, hit.status or "", hit.note),
        as_json=as_json,
        nothing=f"nothing is called {text!r}",
    )
