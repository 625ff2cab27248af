"""One orchestrator: the loop that advances jobs, and supervised threads around it, each with a connection of its own.

All of them trust the process only as long as its heartbeat is fresh, and the heartbeat is sent only as long as every
loop comes round. When its row is gone, others have taken its jobs: it forgets everything and begins again under a new
name. When a thread cannot be helped, it gives its jobs away and does the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.figures import in_short
from rmhdag.orchestrator.life import LONGEST_PAUSE_SECONDS, Life, is_unexpected

log = get_logger(__name__)


class Orchestrator:
    """`run` until `stop`; every life of it has an owner_id of its own.

    `on_hang` is called if a loop hangs so badly that not even the end of its life gets it out.
    """

    def __init__(
        self,
        dsn: str,
        schema: str,
        settings: OrchestratorSettings,
        handler_queues: dict[str, str],
        *,
        notify: bool = True,
        pooled: bool = False,
        on_hang: Callable[[], None] | None = None,
    ) -> None:
        self._dsn = dsn
        self._schema = schema
        self._settings = settings
        self._handler_queues = handler_queues
        self._notify = notify and not pooled
        self._pooled = pooled
        self._on_hang = on_hang
        self._stopping = threading.Event()
        self.was_drained = False
        self._random = Random()
        self._life: Life | None = None

    def stop(self) -> None:
        """Hand the jobs over and end; safe in a signal handler."""
        self._stopping.set()
        if self._life is not None:
            self._life.advance.wake()

    def _drain(self) -> None:
        """Somebody asked for it, from anywhere; heard with every heartbeat from then on."""
        if not self.was_drained:
            log.info("orchestrator_is_drained", owner_id=self.owner_id)
            self.was_drained = True
            self.stop()

    @property
    def owner_id(self) -> str | None:
        return None if self._life is None else self._life.me

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._live_once()
            except Exception as error:
                log.warning("orchestrator_starts_over", error=in_short(error), exc_info=is_unexpected(error))
                self._stopping.wait(self._random.uniform(0.5, 1.5) * LONGEST_PAUSE_SECONDS)

    def _live_once(self) -> None:
        life = Life(
            self._dsn,
            self._schema,
            self._settings,
            self._handler_queues,
            self._notify,
            self._pooled,
            self._drain,
            self._on_hang,
        )
        self._life = life
        try:
            life.begin()
            life.advance_until(self._stopping)
        finally:
            life.end()
            self._life = None
