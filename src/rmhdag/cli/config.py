"""`rmhdag config show`: every setting, its value and where it came from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rmhdag.cli.credentials import show
from rmhdag.cli.output import emit, emit_json, paint, warn
from rmhdag.cli.settings import grouped_fields, load_settings, variables_of


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show settings and where they come from.")
    group.command("show")(show_settings)
    # A group of one command needs a callback, or the command would become the group.
    group.callback()(lambda: None)
    app.add_typer(group, name="config")


def show_settings(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show each setting with its origin: flag, environment, file or default. Passwords are masked.

    \b
    Examples:
      rmhdag config show
      RMHDAG_SCHEMA=test rmhdag config show --json
    """
    settings, origins, warnings, _ = load_settings()
    rows = [
        {
            "name": name,
            "value": show(name, getattr(settings, name)),
            "origin": origins[name],
            "variables": variables_of(name),
            "description": field.description or "",
        }
        for fields in grouped_fields().values()
        for name, field in fields.items()
    ]
    for warning in warnings:
        warn(warning)
    if as_json:
        emit_json({"settings": rows, "warnings": warnings})
        return
    width = max(len(str(row["name"])) for row in rows)
    values = ["(not set)" if row["value"] is None else str(row["value"]) for row in rows]
    value_width = min(max(map(len, values)), 60)
    for row, value in zip(rows, values, strict=True):
        emit(f"{row['name']:<{width}}  {value:<{value_width}}  {paint(str(row['origin']), '2', sys.stdout)}\n")
