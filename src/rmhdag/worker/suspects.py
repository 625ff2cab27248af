"""When a worker takes a suspect: a task during whose runs two workers were lost: it may be what kills them.

A suspect has a worker to itself, so that nobody is lost with it, and an innocent one comes to its end. An idle worker
takes one at once. A busy one leaves it to the idle for a moment, then takes it, claims nothing more and lets what it
has come to its end: so a suspect does not wait for ever behind a steady stream. If that takes long, it gives it back
for a moment, for somebody who has become idle, but still claims nothing else before it takes it again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from rmhdag.models.leases import ClaimedTask
from rmhdag.worker.transport import Transport

# One look costs 0.2 ms; a worker without work may look at each ring of its bell.
LOOK_SECONDS = 1.0
IDLE_LOOK_SECONDS = 0.25
LEFT_TO_IDLE_SECONDS = 1.0
# Shorter than the above: of those that are busy, whoever has begun to wait goes on waiting.
GIVEN_BACK_SECONDS = 0.6


class Suspects:
    """The one suspect that a worker holds, and when it looks for the next."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._seen_at: float | None = None
        self._held: tuple[str, int] | None = None
        self._taken_at = 0.0
        self._given_back: tuple[str, int] | None = None
        self.is_reserved = False

    def give_back(self, lease: tuple[str, int]) -> None:
        """Told by the supervisor: it has waited long enough here, and has not started."""
        self._given_back = lease

    def is_held(self, known: Mapping[str, int]) -> bool:
        """Whether the suspect is still among the tasks that this worker has."""
        if self._held is None:
            return False
        task_id, lease_epoch = self._held
        if known.get(task_id) == lease_epoch:
            return True
        is_given_back, self._held = self._given_back == self._held, None
        if is_given_back:
            self.is_reserved = True
            self._look_at = time.monotonic() + GIVEN_BACK_SECONDS
            return False
        # The others have their turn, for as long as the suspect had the worker, but not for long.
        now = time.monotonic()
        self._look_at = now + min(LOOK_SECONDS, now - self._taken_at)
        return False

    def claim(self, transport: Transport, worker_id: str, *, is_idle: bool) -> ClaimedTask | None:
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + (IDLE_LOOK_SECONDS if is_idle else LOOK_SECONDS)
        was_reserved, self.is_reserved = self.is_reserved, False
        if not transport.suspect_waits():
            self._seen_at = None
            return None
        if self._seen_at is None:
            self._seen_at = now
        if not is_idle and not was_reserved and now - self._seen_at < LEFT_TO_IDLE_SECONDS:
            return None
        task = transport.claim_suspect(worker_id)
        if task is not None:
            self._held = (task.task_id, task.lease_epoch)
            self._taken_at = now
        return task
