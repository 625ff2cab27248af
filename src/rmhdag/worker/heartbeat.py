"""The sign of life, over a connection of its own: nothing that a handler or a slow statement does can hold it up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rmhdag.observability.logs import get_logger
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import Failed, NotAllowed, Pulse, TransportError, Unreachable

log = get_logger(__name__)
# With the default of 2 s: two seconds less than the silence after which others may declare us dead.
TRUSTED_BEATS = 4
RETRY_SECONDS = 0.5


class Fenced(NamedTuple):
    """This worker was declared dead: what it holds belongs to others."""

    worker_id: str


class Heartbeat:
    """Beats until stopped; says so, once, when there is no row to beat on."""

    def __init__(
        self,
        settings: WorkerSettings,
        pulse: Pulse,
        stats: Callable[[], dict[str, Any]],
        hear: Callable[[Fenced | Failed], None],
    ) -> None:
        self._settings = settings
        self._pulse = pulse
        self._stats = stats
        self._hear = hear
        self._worker_id: str | None = None
        self._wake = threading.Event()
        self._stopped = False
        self._succeeded_at = 0.0
        self.draining = False
        self._retry_seconds = RETRY_SECONDS
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def beat_for(self, worker_id: str) -> None:
        """It has just been registered; it is trusted with tasks once a beat went through over our own connection."""
        self._worker_id = worker_id
        self._wake.set()

    def is_fresh(self) -> bool:
        """Nobody can have declared us dead yet. After a freeze this is false until we have asked."""
        return time.monotonic() - self._succeeded_at < TRUSTED_BEATS * self._settings.heartbeat_seconds

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopped:
            began = time.monotonic()
            worker_id = self._worker_id
            pause = self._settings.heartbeat_seconds
            if worker_id is not None and not self._beat(worker_id):
                pause = min(pause, self._retry_seconds)
            self._wake.wait(max(0.05, pause - (time.monotonic() - began)))
            self._wake.clear()
        self._pulse.disconnect()

    def _beat(self, worker_id: str) -> bool:
        began = time.monotonic()
        try:
            alive = self._pulse.beat(worker_id, self._stats(), draining=self.draining)
        except TransportError as error:
            log.warning("heartbeat_failed", worker_id=worker_id, error=str(error))
            self._retry_seconds = max(RETRY_SECONDS, error.retry_seconds if isinstance(error, Unreachable) else 0.0)
            self._pulse.disconnect()
            return False
        except NotAllowed as error:
            self._hear(Failed(error))
            return False
        if alive:
            self._succeeded_at = began
        elif worker_id == self._worker_id:
            self._worker_id = None
            self._hear(Fenced(worker_id))
        return True
