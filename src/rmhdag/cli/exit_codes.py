"""What the shell is told. The numbers are part of the contract and never change their meaning."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    NOT_FOUND = 4
    AUTHENTICATION = 5
    CONFLICT = 6
    CANCELLED = 7
    WAIT_TIMEOUT = 8
    UNAVAILABLE = 69
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "it worked",
    ExitCode.FAILED: "it failed",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.INVALID: "a workflow or a setting is invalid",
    ExitCode.NOT_FOUND: "what was named does not exist",
    ExitCode.AUTHENTICATION: "not logged in, or not allowed",
    ExitCode.CONFLICT: "something else stands in the way",
    ExitCode.CANCELLED: "cancelled",
    ExitCode.WAIT_TIMEOUT: "waiting took too long",
    ExitCode.UNAVAILABLE: "the server or database cannot be reached",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}


def describe_codes() -> str:
    return "\n".join(f"{code.value:>5}  {meaning}" for code, meaning in MEANINGS.items())
