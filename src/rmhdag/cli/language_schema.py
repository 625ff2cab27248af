"""`rmhdag schema`: the JSON Schema of workflow files, for editors and other checkers."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.output import emit, say


def register(app: typer.Typer) -> None:
    app.command("schema")(show_schema)


def show_schema(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.", dir_okay=False)] = None,
) -> None:
    """Show the JSON Schema of workflow files.

    \b
    Examples:
      rmhdag schema -o workflow.schema.json
      rmhdag schema | jq .properties.nodes

    \b
    Editors with a YAML language server complete and check a file that begins with
      # yaml-language-server: $schema=workflow.schema.json
    """
    # As it was generated from the models; a test keeps it so.
    text = files("rmhdag.workflow").joinpath("workflow.schema.json").read_text(encoding="utf-8")
    if output:
        output.write_text(text, encoding="utf-8")
        say(f"wrote {output}")
    else:
        emit(text)
