"""How a process ended, for people."""

from __future__ import annotations

import signal


def describe_end(exit_code: int) -> str:
    """`was killed by SIGSEGV`, or `ended with exit code 1`; the code as `subprocess` gives it."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    has_name = -exit_code in set(signal.Signals)
    return f"was killed by {signal.Signals(-exit_code).name if has_name else f'signal {-exit_code}'}"
