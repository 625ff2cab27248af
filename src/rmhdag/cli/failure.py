"""The one way for a command to end badly: a sentence, a remedy, and an exit code."""

from __future__ import annotations

from rmhdag.cli.exit_codes import ExitCode


class CommandFailed(Exception):
    def __init__(self, message: str, *, remedy: str | None = None, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.code = code
