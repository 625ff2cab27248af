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
    """Calls others dead only after watching their heartbeat unchanged for a TTL, gaps of its own not counted.

    So an outage of the database condemns nobody: it counts for nothing, and afterwards everybody has nearly a whole TTL
    to be heard again. Nor can a connection that breaks every few seconds keep the dead from being found.
    """

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._looked_at: float | None = None
        # process → its last heartbeat, and for how long we have watched it unchanged
        self._seen: dict[str, tuple[str, float]] = {}

    def skip_gap(self) -> None:
        """What passes until the next look was not watched."""
        self._looked_at = None

    def observe(self, heartbeats: Mapping[str, str], now: float) -> dict[str, float]:
        """Who has been silent for a TTL, and for how many seconds at least."""
        watched = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        before, self._seen = self._seen, {}
        for process_id, heartbeat in heartbeats.items():
            last, silence = before.get(process_id, ("", 0.0))
            self._seen[process_id] = (heartbeat, silence + watched if heartbeat == last else 0.0)
        return {process_id: silence for process_id, (_, silence) in self._seen.items() if silence >= self._ttl_seconds}
