"""`rmhdag graph`: the picture of a workflow, in the terminal or for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.picture import Direction, show_picture


def register(app: typer.Typer) -> None:
    app.command(short_help="Draw a workflow: boxes, SVG, Mermaid, DOT.")(graph)


def graph(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A workflow file; - reads stdin.")],
    svg: Annotated[bool, typer.Option("--svg", help="Print an SVG picture, for documents and the web.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print Mermaid text.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print Graphviz text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the layout: positions of nodes and edges.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.", dir_okay=False)] = None,
    direction: Annotated[
        Direction, typer.Option(help="Direction of the graph; boxes in the terminal always flow down.")
    ] = Direction.DOWN,
    width: Annotated[
        int | None, typer.Option(min=20, max=1000, help="Number of columns (default: the terminal's width).")
    ] = None,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Draw boxes without line-drawing characters.")] = False,
) -> None:
    """Draw a workflow: as boxes in the terminal, or as SVG, Mermaid, DOT or JSON.

    \b
    Examples:
      rmhdag graph flow.yaml
      rmhdag graph flow.yaml --svg -o flow.svg
      rmhdag graph flow.yaml --mermaid >> README.md
    """
    show_picture(
        file,
        svg=svg,
        mermaid=mermaid,
        dot=dot,
        as_json=as_json,
        output=output,
        direction=direction,
        width=width,
        ascii_only=ascii_only,
    )
