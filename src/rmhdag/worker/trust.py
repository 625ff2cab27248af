"""How long children may trust their leases: a page of memory that the parent shares with all of them.

A child has no connection to the platform. If its parent is frozen, or cannot reach the platform, another worker may
already run the same task. The parent writes until when its last accepted heartbeat protects its leases, and when its
own loop last made a turn. There are two cases:

- The parent is alive and the platform does not answer: work goes on, and writes to storage wait for the next
  successful heartbeat. An outage fails no task.
- The parent is frozen, so the lease may be lost. Writes, progress and `cancelled` raise `LeaseLost`, and a watchdog
  ends the process if that does not end the task.

Both sides use the clock that goes on while the machine is suspended.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Callable

from rmhdag.handlers.contract import LeaseLost

_TIMES = struct.Struct("=qq")
_TIME = struct.Struct("=q")
_UNTIL = 0  # trusted until; written by the heartbeat
_TURNED = 8  # last turn of the supervisor's loop; written by that loop
_SIZE = 4096
LOOK_SECONDS = 0.05
# The loop of a live parent makes twenty turns per second while it has tasks, if the machine is not overloaded.
SILENT_BEATS = 2
LEAST_SILENCE_SECONDS = 2.0


def silence_seconds(heartbeat_seconds: float) -> float:
    """Seconds without a turn of its loop after which a parent counts as frozen."""
    return max(LEAST_SILENCE_SECONDS, SILENT_BEATS * heartbeat_seconds)


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class TrustPage:
    """Two times in shared memory, each with one writer."""

    def __init__(self, descriptor: int, access: int = mmap.ACCESS_READ) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE, access=access)

    @classmethod
    def create(cls) -> TrustPage:
        descriptor = os.memfd_create("rmhdag-trust", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor, mmap.ACCESS_WRITE)

    def close(self) -> None:
        """The memory stays readable for threads that have not ended yet; the last reference frees it."""
        os.close(self.descriptor)

    def trust_until(self, at_ns: int) -> None:
        _TIME.pack_into(self._memory, _UNTIL, at_ns)

    def mark_turn(self) -> None:
        _TIME.pack_into(self._memory, _TURNED, now_ns())

    def read(self) -> tuple[int, int]:
        """Until when leases are trusted, and the last turn of the parent's loop."""
        until, turned = _TIMES.unpack_from(self._memory, 0)
        return until, turned


class LeaseGuard:
    """The child's view of the page."""

    def __init__(self, page: TrustPage, silence_seconds: float) -> None:
        self._page = page
        self._silence_ns = int(silence_seconds * 1e9)

    def is_trusted(self) -> bool:
        return now_ns() < self._page.read()[0]

    def abandoned_seconds(self) -> float:
        """For how long leases have not been trusted while the parent was frozen; 0 if either does not hold."""
        now = now_ns()
        until, turned = self._page.read()
        if now < until or now - turned < self._silence_ns:
            return 0.0
        return (now - max(until, turned + self._silence_ns)) / 1e9

    def check(self) -> None:
        """Raises LeaseLost if the lease of this task may be lost."""
        if self.abandoned_seconds() > 0:
            raise LeaseLost

    def wait_until_trusted(self, is_told_to_stop: Callable[[], bool]) -> None:
        """Wait before a write that others can see. Raises LeaseLost if the parent is frozen."""
        while not self.is_trusted():
            self.check()
            if is_told_to_stop():
                raise LeaseLost
            time.sleep(LOOK_SECONDS)

    def wait_while_abandoned(self) -> None:
        """Wait before a task begins."""
        while self.abandoned_seconds() > 0:
            time.sleep(LOOK_SECONDS)

    def start_watchdog(self, patience_seconds: float, is_busy: Callable[[], bool]) -> None:
        """Ends this process and those that it started if it runs a task and has been abandoned for this long."""

        def watch() -> None:
            pause = min(1.0, patience_seconds / 4)
            while True:
                time.sleep(pause)
                if self.abandoned_seconds() > patience_seconds and is_busy():
                    os.killpg(0, signal.SIGKILL)

        threading.Thread(target=watch, name="lease-watchdog", daemon=True).start()
