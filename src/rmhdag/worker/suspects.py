"""When a worker claims a suspect: a task that may kill its workers, because two were lost while it ran.

A suspect has a worker to itself, so that no other task is lost with it, and an innocent suspect can finish. An idle
worker claims one at once. A busy worker leaves it to idle workers for a moment, then claims it, claims nothing more
and finishes its other tasks first: so a suspect does not wait forever behind a steady stream of tasks. If that takes
long, the worker releases the suspect for a moment, in case another worker has become idle, but claims nothing else
before it claims the suspect again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from rmhdag.models.leases import ClaimedTask
from rmhdag.worker.transport import Transport

# One query costs 0.2 ms; an idle worker may query at each notification.
LOOK_SECONDS = 1.0
IDLE_LOOK_SECONDS = 0.25
LEFT_TO_IDLE_SECONDS = 1.0
# Shorter than the above: of the busy workers, the one that has begun to wait goes on waiting.
GIVEN_BACK_SECONDS = 0.6


class Suspects:
    """The suspect that a worker holds, and when the worker looks for the next one."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._seen_at: float | None = None
        self._held: tuple[str, int] | None = None
        self._taken_at = 0.0
        self._given_back: tuple[str, int] | None = None
        self.is_reserved = False

    def give_back(self, lease: tuple[str, int]) -> None:
        """Called by the supervisor: the suspect has waited long enough here without starting."""
        self._given_back = lease

    def is_held(self, epochs: Mapping[str, int]) -> bool:
        """Whether this worker still holds the suspect."""
        if self._held is None:
            return False
        task_id, lease_epoch = self._held
        if epochs.get(task_id) == lease_epoch:
            return True
        is_given_back, self._held = self._given_back == self._held, None
        if is_given_back:
            self.is_reserved = True
            self._look_at = time.monotonic() + GIVEN_BACK_SECONDS
            return False
        # Other tasks get their turn for as long as the suspect was here, up to a limit.
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
