"""`rmhdag schema`: the JSON Schema of workflow files, for editors and other checkers; and what the HTTP API offers."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.output import emit, say


def register(app: typer.Typer) -> None:
    app.command("schema", short_help="Show the JSON Schema of workflow files.")(show_schema)


def show_schema(
    openapi: Annotated[
        bool, typer.Option("--openapi", help="Show the OpenAPI document of the HTTP API instead.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.", dir_okay=False)] = None,
) -> None:
    """Show the JSON Schema of workflow files, or the OpenAPI document of the HTTP API. Neither needs a server.

    \b
    Examples:
      rmhdag schema -o workflow.schema.json
      rmhdag schema | jq .properties.nodes
      rmhdag schema --openapi -o openapi.json

    \b
    Editors with a YAML language server complete and check files that begin with
      # yaml-language-server: $schema=workflow.schema.json
    """
    if openapi:
        text = openapi_text()
    else:
        # As it was generated from the models; a test keeps it so.
        text = files("rmhdag.workflow").joinpath("workflow.schema.json").read_text(encoding="utf-8")
    if output:
        output.write_text(text, encoding="utf-8")
        say(f"wrote {output}")
    else:
        emit(text)


def openapi_text() -> str:
    """As `GET /api/v1/openapi.json` answers: nothing in it depends on the settings."""
    from rmhdag.api.application import build
    from rmhdag.api.context import ApiSettings

    return json.dumps(build(ApiSettings(dsn="")).openapi(), indent=2, ensure_ascii=False) + "\n"
