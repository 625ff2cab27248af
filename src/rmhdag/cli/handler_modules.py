"""The handlers of one's own modules, for commands that check workflows: described by a child, never imported here."""

from __future__ import annotations

import os

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.settings_files import find_file
from rmhdag.workflow.known_handlers import HandlerEntry

VARIABLE = "RMHDAG_HANDLERS"


def configured_modules() -> str:
    """RMHDAG_HANDLERS, or that of a settings file; without the model of all settings, which is half of a start."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named
    if find_file() is None:
        return ""
    from rmhdag.cli.settings import load_settings

    return load_settings({}).settings.handlers


def describe_handlers(named: str) -> list[HandlerEntry]:
    """Of modules as RMHDAG_HANDLERS names them. A mistake in one of them ends the command with its place."""
    if not named.strip():
        return []
    from rmhdag.handlers.description import describe_modules
    from rmhdag.handlers.registry import RegistrationError, split_modules

    try:
        return [HandlerEntry.from_manifest(manifest) for manifest in describe_modules(split_modules(named))]
    except RegistrationError as error:
        raise broken_modules(error.message, error.remedy) from None


def broken_modules(message: str, remedy: str) -> CommandFailed:
    return CommandFailed(message, remedy=remedy, code=ExitCode.INVALID)
