"""`rmhdag version`."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

import rmhdag
from rmhdag.cli.output import emit, emit_json


def register(app: typer.Typer) -> None:
    app.command()(version)


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the version."""
    if as_json:
        emit_json({"version": rmhdag.__version__, "python": platform.python_version()})
    else:
        emit(f"rmhdag {rmhdag.__version__}\n")
