"""Exit codes, in words."""

from __future__ import annotations

from rmhdag.models.refusals import ExitCode as ExitCode

MEANINGS = {
    ExitCode.OK: "the command succeeded",
    ExitCode.FAILED: "the command or the job failed",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.INVALID: "a workflow or a setting is invalid",
    ExitCode.NOT_FOUND: "the named object does not exist",
    ExitCode.AUTHENTICATION: "not logged in, or not allowed",
    ExitCode.CONFLICT: "a conflict with the current state",
    ExitCode.CANCELLED: "cancelled",
    ExitCode.WAIT_TIMEOUT: "the wait timed out",
    ExitCode.UNAVAILABLE: "the server or database cannot be reached",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


def describe_codes() -> str:
    return "\n".join(f"{code.value:>5}  {meaning}" for code, meaning in MEANINGS.items())
