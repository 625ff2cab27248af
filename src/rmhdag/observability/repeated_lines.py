"""Limits lines that callers without a key can cause at will: one per interval, then a count of the others.

Without this, anyone who reaches the port could fill the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

INTERVAL_SECONDS = 10.0
# Our own events, and messages of uvicorn and websockets about requests that they cannot read.
REPEATED = frozenset(
    {
        "caller_refused",
        "database_unavailable",
        "Invalid HTTP request received.",
        "Unsupported upgrade request.",
        "opening handshake failed",
        "connection rejected (400 Bad Request)",
    }
)

Tell = Callable[[str, str | None, int], None]


class RepeatedLines:
    """A processor of structlog; `tell` is called with (event, code, count) for suppressed lines."""

    def __init__(self, tell: Tell, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._tell = tell
        self._interval_seconds = interval_seconds
        self._lock = threading.Lock()
        self._left_out: dict[tuple[str, str | None], int] = {}

    def __call__(self, logger: Any, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event = fields.get("event")
        if event not in REPEATED or "repeated" in fields:
            return fields
        kind = (str(event), fields.get("code"))
        with self._lock:
            if kind in self._left_out:
                self._left_out[kind] += 1
                raise structlog.DropEvent
            self._left_out[kind] = 0
            self._wait(kind)
        return fields

    def _wait(self, kind: tuple[str, str | None]) -> None:
        timer = threading.Timer(self._interval_seconds, self._end_interval, [kind])
        timer.daemon = True
        timer.start()

    def _end_interval(self, kind: tuple[str, str | None]) -> None:
        """While lines are suppressed, one line per interval gives their number; then the next line is written again."""
        with self._lock:
            count = self._left_out.pop(kind, 0)
            if count:
                self._left_out[kind] = 0
                self._wait(kind)
        if count:
            self._tell(*kind, count)

    def flush(self) -> None:
        """Writes all counts now, for example because the process ends; the next line of each kind is written again."""
        with self._lock:
            counts, self._left_out = self._left_out, {}
        for kind, count in counts.items():
            if count:
                self._tell(*kind, count)
