"""A process that must not outlive the one that started it, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import say

PR_SET_PDEATHSIG = 1
# Said only to the `rmhdag up` that started us, which then does not start us again; anybody else is told 0.
EXIT_DRAINED = 40


def end_drained(parent: int | None) -> None:
    """The last words of a process that somebody has drained."""
    say("stopped: it was drained")
    raise typer.Exit(ExitCode.OK if parent is None else EXIT_DRAINED)


def die_with(parent: int) -> None:
    """The kernel kills us when the parent is gone. It must still be there once that is arranged."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise CommandFailed(f"process {parent}, which started this one, is gone", code=ExitCode.UNAVAILABLE)
