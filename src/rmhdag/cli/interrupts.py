"""Ctrl-C that is never lost.

Pydantic builds models when they are first used, and turns an interrupt that arrives meanwhile into an error of its own,
or into nothing. So the interrupt is remembered: code that catches such an error asks here, and so does every long loop.
"""

from __future__ import annotations

import signal
from types import FrameType

_seen = False


def remember_interrupts() -> None:
    """Only where Ctrl-C means an interrupt: a program started in the background may ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_: int, __: FrameType | None) -> None:
    global _seen
    _seen = True
    raise KeyboardInterrupt


def raise_if_interrupted() -> None:
    if _seen:
        raise KeyboardInterrupt
