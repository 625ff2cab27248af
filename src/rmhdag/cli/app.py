"""The tree of commands. A module is imported only for the command that is run, or to list all of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode, describe_codes

# In the order of `--help`; each module has a `register(app)`.
COMMANDS = {
    "up": "rmhdag.cli.up",
    "demo": "rmhdag.cli.demo",
    "submit": "rmhdag.cli.submit",
    "jobs": "rmhdag.cli.jobs",
    "job": "rmhdag.cli.job",
    "logs": "rmhdag.cli.logs",
    "cancel": "rmhdag.cli.cancel",
    "retry": "rmhdag.cli.retry",
    "approvals": "rmhdag.cli.approvals",
    "decide": "rmhdag.cli.decide",
    "assets": "rmhdag.cli.assets",
    "asset": "rmhdag.cli.asset",
    "rollback": "rmhdag.cli.rollback",
    "catalogue": "rmhdag.cli.catalogue",
    "storage": "rmhdag.cli.storage",
    "workflows": "rmhdag.cli.workflows",
    "queues": "rmhdag.cli.queues",
    "quotas": "rmhdag.cli.quotas",
    "dead-letters": "rmhdag.cli.dead_letters",
    "callbacks": "rmhdag.cli.callbacks",
    "orchestrators": "rmhdag.cli.orchestrators",
    "workers": "rmhdag.cli.workers",
    "orchestrator": "rmhdag.cli.run_orchestrator",
    "worker": "rmhdag.cli.run_worker",
    "api": "rmhdag.cli.run_api",
    "keys": "rmhdag.cli.keys",
    "audit": "rmhdag.cli.audit",
    "validate": "rmhdag.cli.validate",
    "graph": "rmhdag.cli.graph",
    "schema": "rmhdag.cli.language_schema",
    "sample-data": "rmhdag.cli.sample_data",
    "simulate": "rmhdag.cli.simulate",
    "bench": "rmhdag.cli.bench",
    "chaos": "rmhdag.cli.chaos",
    "prune": "rmhdag.cli.prune",
    "db": "rmhdag.cli.db",
    "doctor": "rmhdag.cli.doctor",
    "config": "rmhdag.cli.config",
    "version": "rmhdag.cli.version",
}

EPILOG = f"""\b
Exit codes:
{describe_codes()}
"""


def command_of(arguments: Sequence[str]) -> str | None:
    """The command that will run, if it is one of ours; None if all of them are needed, for help or a suggestion."""
    word = next((word for word in arguments if not word.startswith("-")), None)
    return word if word in COMMANDS and arguments[0] not in ("--help", "--version") else None


def build_app(*, only: str | None = None, completion: bool = False) -> typer.Typer:
    """All commands, or only the one that is needed. Completion adds options whose words depend on the shell."""
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
    for name, module in COMMANDS.items():
        if only in (None, name):
            import_module(module).register(app)
    return app


def show_version(wanted: bool) -> None:
    if wanted:
        from rmhdag.cli.version import version

        version()
        raise typer.Exit(ExitCode.OK)


def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text, as with NO_COLOR=1.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """\b
    Workflows for geospatial data, with PostgreSQL as the only truth.

    \b
    Examples:
      rmhdag up                               everything, until Ctrl-C
      rmhdag submit hello_world --wait        a job, before your eyes
      rmhdag validate workflows/              all problems, with line and remedy
      rmhdag graph flow.yaml                  the picture, in the terminal
      rmhdag graph flow.yaml --svg -o f.svg   the picture, for a document
      rmhdag db migrate                       make or update the database
      rmhdag doctor                           what is missing on this machine
    """
    if no_color:
        from rmhdag.cli.output import forbid_colour

        forbid_colour()
