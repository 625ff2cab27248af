"""Whether each service answers: asked in turn, and remembered, so that one that hangs can be restarted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx

from rmhdag.serving.service_kinds import HEALTH, Service

PAUSE_SECONDS = 2.0
STARTING_PAUSE_SECONDS = 0.1
ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class State:
    is_up: bool
    # When it answered last; of one that never did, when it was started.
    heard_at: float
    restarts: int = 0


class Health:
    """Written by the proxy's thread, read by the one that supervises the processes."""

    def __init__(self, services: Iterable[Service]) -> None:
        self._lock = threading.Lock()
        self._states = {name: State(False, time.monotonic()) for name in services}

    def states(self) -> dict[Service, State]:
        with self._lock:
            return dict(self._states)

    def hanging(self, patience_seconds: float) -> list[Service]:
        """Those that have not answered for so long."""
        now = time.monotonic()
        return [name for name, state in self.states().items() if now - state.heard_at > patience_seconds]

    def note_restart(self, name: Service) -> None:
        """It gets all its time again."""
        with self._lock:
            self._states[name] = State(False, time.monotonic(), self._states[name].restarts + 1)

    async def watch(self, clients: Mapping[Service, httpx.AsyncClient]) -> None:
        await asyncio.gather(*(self._watch(name, client) for name, client in clients.items()))

    async def _watch(self, name: Service, client: httpx.AsyncClient) -> None:
        while True:
            is_up = await answers(client, HEALTH[name])
            with self._lock:
                before = self._states[name]
                heard_at = time.monotonic() if is_up else before.heard_at
                self._states[name] = State(is_up, heard_at, before.restarts)
            await asyncio.sleep(PAUSE_SECONDS if is_up else STARTING_PAUSE_SECONDS)


async def answers(client: httpx.AsyncClient, path: str) -> bool:
    try:
        response = await client.get(path, timeout=ANSWER_SECONDS)
    except httpx.HTTPError:
        return False
    return response.status_code == httpx.codes.OK
