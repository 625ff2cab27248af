"""Fresh ids from the clock and the system's random source; strictly growing within a process."""

from __future__ import annotations

import os
import threading
import time

from rmhdag.models.ids import RANDOM_BYTES, IdSequence

_sequence = IdSequence()
_lock = threading.Lock()


def new_id() -> str:
    """A UUIDv7 as 32 hex digits. Its time is only for order: no decision is taken from it."""
    with _lock:
        return _sequence.next(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))


def _start_anew() -> None:
    global _sequence, _lock
    _sequence, _lock = IdSequence(), threading.Lock()


# A child that went on with its parent's counter would mint ids close to the parent's.
os.register_at_fork(after_in_child=_start_anew)
