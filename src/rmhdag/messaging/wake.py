"""A descriptor that wakes a loop, and that nobody writes to any more once it is closed."""

from __future__ import annotations

import os
import threading


class Wake:
    """Rung by any thread. After `close` a ring does nothing: the number may belong to another file by then."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.RLock()  # a signal handler may ring while its own thread does
        self._is_closed = False
        # Known without asking the system: an empty descriptor answers with an exception, in every turn of a loop.
        self._has_rung = False

    def fileno(self) -> int:
        return self._descriptor

    def ring(self) -> None:
        with self._lock:
            if not self._is_closed and not self._has_rung:
                self._has_rung = True
                os.eventfd_write(self._descriptor, 1)

    def take(self) -> bool:
        """True if somebody rang since this was last asked."""
        if not self._has_rung:
            return False
        with self._lock:
            if not self._is_closed:
                os.eventfd_read(self._descriptor)
            # Last: a signal handler that rings before this is answered by this call.
            self._has_rung = False
            return not self._is_closed

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._descriptor)
