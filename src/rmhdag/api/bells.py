"""Waiting for work on behalf of many: one listener, one look per second, however many wait.

Who waits costs a little memory, no thread and no connection. Rings are counted per queue: whoever comes back and says
how far it had heard misses none in between.
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
from rmhdag.store.channels import queue_channel
from rmhdag.store.tasks import queues_with_waiting

LOOK_SECONDS = 1.0
# Nobody has waited for so long: the listener's connection is given up.
IDLE_SECONDS = 60.0
MOST_QUEUES = 256
MOST_WAITING = 2_000


class TooManyWait(Exception):
    """This process has as many waiting as it takes."""


class _Waiting(NamedTuple):
    queues: frozenset[str]
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
        self._counts: dict[str, int] = {}
        self._waiting: set[_Waiting] = set()
        self._queues: set[str] = set()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def place(self, queues: Iterable[str]) -> str:
        """How far has been heard; in another process, or another life of this one, it is another place."""
        return f"{self._life}.{sum(self._counts.get(queue, 0) for queue in queues)}"

    async def wait(self, queues: Sequence[str], after: str, seconds: float) -> bool:
        """Until one of the queues rings, or has rung since that place; False when the time is over."""
        one = _Waiting(frozenset(queues), asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                raise TooManyWait
            self._waiting.add(one)
            self._listen_to(one.queues)
        try:
            # After it was added: a ring before this is seen in the place, a later one in the event.
            if self._is_closed or self.place(queues) != after:
                return True
            async with asyncio.timeout(seconds):
                await one.rung.wait()
            return True
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.discard(one)

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
        while not self._is_closed and self._hear():
            pass

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
                left = LOOK_SECONDS - (time.monotonic() - looked_at)
                if bell.wait(max(0.0, left), [self._wake_fd]):
                    self._ring({queue for channel, queue in channels.items() if bell.heard(channel)})
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                now = time.monotonic()
                if now - looked_at >= LOOK_SECONDS:
                    looked_at = now
                    self._ring(self._look())
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

    def _look(self) -> set[str]:
        """Rings may be missed, or not be passed on at all: the rows are the truth."""
        with self._lock:
            wanted = {queue for one in self._waiting for queue in one.queues}
        if not wanted:
            return set()
        try:
            with self._pool.connection() as conn:
                return queues_with_waiting(conn, sorted(wanted))
        except (psycopg.Error, PoolTimeout, PoolClosed):
            return set()

    def _ring(self, queues: set[str]) -> None:
        if not queues:
            return
        with self._lock:
            for queue in queues:
                self._counts[queue] = self._counts.get(queue, 0) + 1
            self._tell(one for one in self._waiting if one.queues & queues)

    def _tell(self, waiting: Iterable[_Waiting]) -> None:
        for one in waiting:
            # A loop that has ended has nobody left who waits.
            with suppress(RuntimeError):
                one.loop.call_soon_threadsafe(one.rung.set)
