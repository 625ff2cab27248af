"""A descriptor that wakes a loop, and that is never written to after it is closed."""

from __future__ import annotations

import os


class _Eventfd:
    """Closed when nothing refers to it any more: while a ring is under way, no other file gets its number."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __del__(self) -> None:
        os.close(self.number)


class Wake:
    """Rung by any thread and by signal handlers. After `close` a ring does nothing.

    There is no lock: a ring gives up the interpreter while it writes, and with a lock the loop that it wakes would
    first wait for the ringing thread to get the interpreter back.
    """

    def __init__(self) -> None:
        self._eventfd: _Eventfd | None = _Eventfd()
        self._number = self._eventfd.number
        # Known without asking the system: an empty descriptor answers with an exception, in every turn of a loop.
        self._has_rung = False

    def fileno(self) -> int:
        return self._number

    def ring(self) -> None:
        eventfd = self._eventfd
        if eventfd is not None and not self._has_rung:
            # Before the write: after it, the loop may have taken the ring already, and all later ones would be silent.
            self._has_rung = True
            os.eventfd_write(eventfd.number, 1)

    def take(self) -> bool:
        """True if somebody rang since this was last asked. What was left before that ring is there to be seen now."""
        eventfd = self._eventfd
        if eventfd is None or not self._has_rung:
            return False
        try:
            os.eventfd_read(eventfd.number)
        except BlockingIOError:
            return False  # the thread that rings has not written yet: it will, and then the loop wakes again
        # Last: a ring that comes before this writes nothing, and is answered by this call.
        self._has_rung = False
        return True

    def close(self) -> None:
        self._eventfd = None
