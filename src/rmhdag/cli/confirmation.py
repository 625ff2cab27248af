"""Asking before something that cannot be undone."""

from __future__ import annotations

import sys

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed


def confirm(question: str, what: str) -> None:
    """End the command unless somebody agrees; `what` waits for that."""
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{what} confirmation, and there is no terminal to ask",
            remedy="Run it again with --yes, or with --dry-run to see what would be done.",
            code=ExitCode.USAGE,
        )
    if not typer.confirm(question, err=True):
        raise CommandFailed("not confirmed, nothing was changed", code=ExitCode.CANCELLED)
