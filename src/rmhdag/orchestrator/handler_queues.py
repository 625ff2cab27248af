"""The queues that handlers name themselves, as an orchestrator knows them."""

from __future__ import annotations

from collections.abc import Mapping

from rmhdag.services.plans import QueueOf
from rmhdag.services.registrations import handler_queues
from rmhdag.store.connection import Conn


class HandlerQueues:
    """`shared` are those of handlers that all namespaces have. They are asked first, and may be asked anew. A queue
    that was found once stays: jobs are loaded without reading handlers.
    """

    def __init__(self, shared: Mapping[str, str]) -> None:
        self._shared = shared
        self._known: dict[tuple[str, str], str] = {}

    def of_namespace(self, conn: Conn, namespace: str) -> QueueOf:
        def queue_of(handler: str) -> str | None:
            queue = self._known.get((namespace, handler))
            if queue is None:
                queue = self._shared.get(handler) or handler_queues(conn, namespace).get(handler)
                if queue is not None:
                    self._known[namespace, handler] = queue
            return queue

        return queue_of
