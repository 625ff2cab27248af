"""A process that must not outlive the one that started it, however that one ends."""

from __future__ import annotations

import ctypes
import os
import signal

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """The kernel kills us when the parent is gone. It must still be there once that is arranged."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise CommandFailed(f"process {parent}, which started this one, is gone", code=ExitCode.UNAVAILABLE)
