"""The heartbeat, over a connection of its own: neither a handler nor a slow statement can delay it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rmhdag.models.leases import BeatAnswer
from rmhdag.observability.logs import get_logger
from rmhdag.observability.supervision import Loop, Overdue, Supervisor
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import Failed, NotAllowed, Pulse, TransportError, Unreachable
from rmhdag.worker.trust import TrustPage, now_ns

log = get_logger(__name__)
# With the default of 2 s: two seconds less than the time after which orchestrators may declare the worker dead.
TRUSTED_BEATS = 4
RETRY_SECONDS = 0.5


class Fenced(NamedTuple):
    """This worker was declared dead: it has lost all its leases."""

    worker_id: str


class DrainRequested(NamedTuple):
    """The worker should drain: finish its tasks and end. Repeated with every heartbeat from then on."""

    worker_id: str


class Heartbeat:
    """Sends heartbeats until stopped; reports once if the worker's row is gone."""

    def __init__(
        self,
        settings: WorkerSettings,
        pulse: Pulse,
        stats: Callable[[], dict[str, Any]],
        hear: Callable[[Fenced | DrainRequested | Failed], None],
        trust: TrustPage,
    ) -> None:
        self._settings = settings
        self._pulse = pulse
        self._stats = stats
        self._hear = hear
        self._trust = trust
        self._worker_id: str | None = None
        self._wake = threading.Event()
        self._stopped = False
        self._has_ended = threading.Event()
        self._trusted_until_ns = 0
        self.draining = False
        self._retry_seconds = RETRY_SECONDS

    def start(self, supervisor: Supervisor) -> None:
        overdue = Overdue(supervisor, self._settings.stuck_seconds)
        supervisor.start("heartbeat", lambda loop: self._run(loop, overdue), self._settings.stuck_seconds)

    def beat_for(self, worker_id: str) -> None:
        """The worker has just been registered; it may run tasks once a heartbeat has succeeded on this connection."""
        self._worker_id = worker_id
        self._wake.set()

    def is_fresh(self) -> bool:
        """No orchestrator can have declared the worker dead yet. False after a freeze, until the next heartbeat."""
        return now_ns() < self._trusted_until_ns

    def stop(self, timeout_seconds: float = 10.0) -> None:
        self._stopped = True
        self._wake.set()
        self._has_ended.wait(timeout_seconds)

    def _run(self, loop: Loop, overdue: Overdue) -> None:
        """Runs until stopped. Before each heartbeat it checks that the worker's loops are alive."""
        if loop.restarts:
            self._pulse.disconnect()
        while not self._stopped:
            loop.turn()
            if overdue.give_up_if_stuck():
                break
            began = time.monotonic()
            worker_id = self._worker_id
            pause = self._settings.heartbeat_seconds
            if worker_id is not None and not self._beat(worker_id):
                pause = min(pause, self._retry_seconds)
            self._wake.wait(max(0.05, pause - (time.monotonic() - began)))
            self._wake.clear()
        self._pulse.disconnect()
        self._has_ended.set()

    def _believe_until(self, at_ns: int) -> None:
        self._trusted_until_ns = at_ns
        self._trust.trust_until(at_ns)

    def _beat(self, worker_id: str) -> bool:
        began_ns = now_ns()
        try:
            answer = self._pulse.beat(worker_id, self._stats(), draining=self.draining)
        except TransportError as error:
            log.warning("heartbeat_failed", worker_id=worker_id, error=str(error))
            self._retry_seconds = max(RETRY_SECONDS, error.retry_seconds if isinstance(error, Unreachable) else 0.0)
            self._pulse.disconnect()
            return False
        except NotAllowed as error:
            self._hear(Failed(error))
            return False
        if answer is not BeatAnswer.GONE:
            self._believe_until(began_ns + int(TRUSTED_BEATS * self._settings.heartbeat_seconds * 1e9))
            if answer is BeatAnswer.DRAIN:
                self._hear(DrainRequested(worker_id))
        elif worker_id == self._worker_id:
            self._worker_id = None
            self._believe_until(0)
            self._hear(Fenced(worker_id))
        return True
