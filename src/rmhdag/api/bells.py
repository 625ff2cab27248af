"""Waiting for work on behalf of many: one listener, one look per second, however many wait.

A waiting worker costs a little memory, no thread and no connection. Rings are counted per queue and namespace: a worker
that comes back and names the last ring it heard misses none in between, and hears nothing of other namespaces.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from rmhdag.messaging.doorbell import Doorbell
from rmhdag.observability.logs import get_logger
from rmhdag.store.channels import queue_channel
from rmhdag.store.tasks import waiting_namespaces

log = get_logger(__name__)

LOOK_SECONDS = 1.0
# Nobody has waited for so long: the listener's connection is given up.
IDLE_SECONDS = 60.0
MOST_QUEUES = 256
MOST_WAITING = 2_000
MOST_COUNTS = 10_000


class TooManyWait(Exception):
    """This process has as many waiting as it takes."""


class _Waiting(NamedTuple):
    queues: frozenset[str]
    namespace: str
    loop: asyncio.AbstractEventLoop
    rung: asyncio.Event


class Bells:
    def __init__(self, dsn: str, schema: str, pool: ConnectionPool[Any], *, notify: bool) -> None:
        self._dsn = dsn
        self._schema = schema
        self._pool = pool
        self._notify = notify
        self._life = secrets.token_hex(4)
        self._lock = threading.Lock()
        # By queue and namespace; None where so many tasks wait that anybody's may be among them.
        self._counts: dict[tuple[str, str | None], int] = {}
        self._waiting: set[_Waiting] = set()
        self._queues: set[str] = set()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def place(self, namespace: str, queues: Iterable[str]) -> str:
        """How far has been heard; in another process, or another life of this one, it is another place."""
        counts = (self._counts.get((queue, whose), 0) for queue in queues for whose in (namespace, None))
        return f"{self._life}.{sum(counts)}"

    async def wait(self, namespace: str, queues: Sequence[str], after: str, seconds: float) -> bool:
        """Until one of the queues rings for the namespace, or has rung since that place; False if time is up."""
        waiter = _Waiting(frozenset(queues), namespace, asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                raise TooManyWait
            self._waiting.add(waiter)
            self._listen_to(waiter.queues)
        try:
            # After it was added: a ring before this is seen in the place, a later one in the event.
            if self._is_closed or self.place(namespace, queues) != after:
                return True
            async with asyncio.timeout(seconds):
                await waiter.rung.wait()
            return True
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.discard(waiter)

    def release_all(self) -> None:
        """Nobody waits any longer: the process is about to end."""
        self._is_closed = True
        with self._lock:
            self._tell(self._waiting)
        os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        self.release_all()
        if self._thread is not None:
            self._thread.join(timeout=10)
        os.close(self._wake_fd)

    def _listen_to(self, queues: frozenset[str]) -> None:
        if not queues <= self._queues and len(self._queues | queues) <= MOST_QUEUES:
            self._queues |= queues
            os.eventfd_write(self._wake_fd, 1)
        if self._thread is None and not self._is_closed:
            self._thread = threading.Thread(target=self._run, name="bells", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                if not self._hear():
                    return
            except Exception as error:  # whatever it is: without this thread all who wait would hear nothing
                log.exception("bells_failed", error=type(error).__name__)
                time.sleep(LOOK_SECONDS)

    def _hear(self) -> bool:
        """With one set of queues, until it grows, or until nobody has waited for long; False then."""
        with self._lock:
            queues = sorted(self._queues)
        channels = {queue_channel(queue): queue for queue in queues}
        bell = Doorbell(self._dsn, self._schema, channels, enabled=self._notify)
        looked_at = 0.0
        wanted_at = time.monotonic()
        try:
            while not self._is_closed:
                remaining = LOOK_SECONDS - (time.monotonic() - looked_at)
                if bell.wait(max(0.0, remaining), [self._wake_fd]):
                    self._ring(self._look({queue for channel, queue in channels.items() if bell.heard(channel)}))
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                now = time.monotonic()
                if now - looked_at >= LOOK_SECONDS:
                    looked_at = now
                    self._ring(self._look(set(queues)))
                with self._lock:
                    if self._waiting:
                        wanted_at = now
                    elif now - wanted_at > IDLE_SECONDS:
                        self._thread = None
                        self._queues.clear()
                        return False
                    if not self._queues <= set(queues):
                        return True
            return False
        finally:
            bell.close()

    def _look(self, queues: set[str]) -> set[tuple[str, str | None]]:
        """Rings may be missed, or not be passed on: the rows are the truth, and only they say whose a task is."""
        with self._lock:
            names = {queue for waiter in self._waiting for queue in waiter.queues} & queues
        if not names:
            return set()
        try:
            with self._pool.connection() as conn:
                return waiting_namespaces(conn, sorted(names))
        except (psycopg.Error, PoolTimeout, PoolClosed):
            return set()

    def _ring(self, rung: set[tuple[str, str | None]]) -> None:
        if not rung:
            return
        with self._lock:
            if len(self._counts) > MOST_COUNTS:
                # Another life: everybody looks once.
                self._life = secrets.token_hex(4)
                self._counts.clear()
            for place in rung:
                self._counts[place] = self._counts.get(place, 0) + 1
            self._tell(
                waiter
                for waiter in self._waiting
                if any((queue, whose) in rung for queue in waiter.queues for whose in (waiter.namespace, None))
            )

    def _tell(self, waiting: Iterable[_Waiting]) -> None:
        for waiter in waiting:
            # A loop that has ended has nobody left who waits.
            with suppress(RuntimeError):
                waiter.loop.call_soon_threadsafe(waiter.rung.set)
