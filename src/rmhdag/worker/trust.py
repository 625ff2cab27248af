"""How long children may believe that what they run is still theirs, on a page that the parent shares with all of them.

A child has no connection to the platform. If its parent is frozen, or cannot reach the platform, somebody else may run
the same task by now. The parent writes until when its last accepted heartbeat protects its leases, and when its own
loop last came round. Two cases follow:

- The parent lives and the platform does not answer: work goes on, writes to storage wait until the heartbeat is
  answered again. An outage fails no task.
- The parent is frozen: nobody can say whether the lease is lost. Writes, progress and `cancelled` raise `LeaseLost`,
  and a watchdog ends the process if that does not end the task.

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
_TURNED = 8  # the supervisor's loop came round; written by that loop
_SIZE = 4096
LOOK_SECONDS = 0.05
# A parent that is alive comes round twenty times per second while it has tasks, if the machine lets it.
SILENT_BEATS = 2
LEAST_SILENCE_SECONDS = 2.0


def silence_seconds(heartbeat_seconds: float) -> float:
    """A parent whose loop has not come round for so long is taken to be frozen."""
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
        """The memory stays readable for a thread that has not ended yet; it goes with the last reference."""
        os.close(self.descriptor)

    def trust_until(self, at_ns: int) -> None:
        _TIME.pack_into(self._memory, _UNTIL, at_ns)

    def mark_turn(self) -> None:
        _TIME.pack_into(self._memory, _TURNED, now_ns())

    def read(self) -> tuple[int, int]:
        """Trusted until, and last turn of the parent's loop."""
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
        """Since when the parent's word is void and the parent silent; 0 if it is not so."""
        now = now_ns()
        until, turned = self._page.read()
        if now < until or now - turned < self._silence_ns:
            return 0.0
        return (now - max(until, turned + self._silence_ns)) / 1e9

    def check(self) -> None:
        """Raises LeaseLost if nobody can say any more whose task this is."""
        if self.abandoned_seconds() > 0:
            raise LeaseLost

    def wait_until_trusted(self, is_told_to_stop: Callable[[], bool]) -> None:
        """Before anything is written that others see."""
        while not self.is_trusted():
            self.check()
            if is_told_to_stop():
                raise LeaseLost
            time.sleep(LOOK_SECONDS)

    def wait_while_abandoned(self) -> None:
        """Before a task begins."""
        while self.abandoned_seconds() > 0:
            time.sleep(LOOK_SECONDS)

    def start_watchdog(self, patience_seconds: float, is_busy: Callable[[], bool]) -> None:
        """End this process, with all that it has started, if it runs a task and has been abandoned for so long."""

        def watch() -> None:
            pause = min(1.0, patience_seconds / 4)
            while True:
                time.sleep(pause)
                if self.abandoned_seconds() > patience_seconds and is_busy():
                    os.killpg(0, signal.SIGKILL)

        threading.Thread(target=watch, name="lease-watchdog", daemon=True).start()
