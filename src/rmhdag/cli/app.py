"""The tree of commands. A module is imported only for the command that is run."""

from __future__ import annotations

from collections.abc import Container, Sequence
from importlib import import_module
from typing import Annotated

import typer

from rmhdag.cli.commands import COMMANDS
from rmhdag.cli.exit_codes import ExitCode, describe_codes
from rmhdag.cli.output import forbid_colour
from rmhdag.cli.version import version as print_version

EPILOG = f"""\b
Exit codes:
{describe_codes()}
"""


def command_of(arguments: Sequence[str]) -> str | None:
    """The command that will run, if it is one of ours; None for the list of all of them, or for a suggestion."""
    word = next((word for word in arguments if not word.startswith("-")), None)
    return word if word in COMMANDS and arguments[0] not in ("--help", "--version") else None


def build_app(load: Container[str] = COMMANDS, *, lists_others: bool = False, completion: bool = False) -> typer.Typer:
    """With these commands; the others are left out, or only listed. Completion adds options whose words depend on the
    shell.
    """
    app = typer.Typer(
        name="rmhdag",
        # Rich's help is prettier and costs 130 ms at every start.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=completion,
        no_args_is_help=True,
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(root)
    for name, command in COMMANDS.items():
        if name in load:
            import_module(f"rmhdag.cli.{command.module}").register(app)
        elif lists_others:
            app.command(name, short_help=command.help)(listed_only)
    return app


def listed_only() -> None:
    """In the place of a command that is listed and not run."""


def show_version(is_asked: bool) -> None:
    if is_asked:
        print_version()
        raise typer.Exit(ExitCode.OK)


def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, as with NO_COLOR=1.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """\b
    Run geospatial workflows. PostgreSQL holds all state.

    \b
    Examples:
      rmhdag up                               start everything; Ctrl-C stops it
      rmhdag submit hello_world --wait        run a job and show its progress
      rmhdag validate workflows/              report all problems, with line and remedy
      rmhdag graph flow.yaml                  draw a workflow in the terminal
      rmhdag graph flow.yaml --svg -o f.svg   draw it for a document
      rmhdag db migrate                       create or update the database schema
      rmhdag doctor                           report what is missing on this machine
    """
    if no_color:
        forbid_colour()
