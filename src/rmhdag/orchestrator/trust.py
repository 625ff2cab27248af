"""How long a process may believe that it is alive in the eyes of the others, and when it may call another one dead.

Only monotonic time of this process is used, and only to stop early or to wait longer; who owns what is decided by rows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from time import monotonic


class Trust:
    """A heartbeat that was accepted is worth TTL − margin from the moment its attempt began."""

    def __init__(self, ttl_seconds: float, margin_seconds: float) -> None:
        self._worth_seconds = ttl_seconds - margin_seconds
        self._until = 0.0
        self._changed = threading.Condition()
        self.unbroken_since = 0.0

    def renew(self, attempt_began: float) -> None:
        with self._changed:
            if monotonic() >= self._until:
                self.unbroken_since = attempt_began
            self._until = max(self._until, attempt_began + self._worth_seconds)
            self._changed.notify_all()

    def revoke(self) -> None:
        self._until = 0.0

    @property
    def holds(self) -> bool:
        return monotonic() < self._until

    def wait(self, timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.holds, timeout_seconds)


class SilenceWatch:
    """Calls others dead only after watching their heartbeat unchanged for a whole TTL without a gap of its own.

    So an outage of the database condemns nobody: whoever could not look starts its watch over.
    """

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._seen: dict[str, tuple[str, float]] = {}

    def reset(self) -> None:
        self._seen.clear()

    def observe(self, heartbeats: Mapping[str, str], now: float) -> dict[str, float]:
        """Who has been silent for a TTL, and for how many seconds at least."""
        silent = {}
        for process_id, heartbeat in heartbeats.items():
            before = self._seen.get(process_id)
            if before is None or before[0] != heartbeat:
                self._seen[process_id] = (heartbeat, now)
            elif now - before[1] >= self._ttl_seconds:
                silent[process_id] = now - before[1]
        for process_id in self._seen.keys() - heartbeats.keys():
            del self._seen[process_id]
        return silent
