"""One listener: its place in the stream, a short queue, and the table to go back to when the queue is too short."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import wait_for_share
from rmhdag.api.streams.chunks import Chunk, P
from rmhdag.observability.logs import get_logger

RETRY_SECONDS = 1.0

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class StreamLimits:
    """What is granted to one listener."""

    # After so long without an event a comment shows that the stream is alive.
    ping_seconds: float = 15.0
    # What a listener that does not read may keep waiting in memory; mostly shared with the others.
    most_bytes: int = 512 * 1024
    most_chunks: int = 64
    # A listener that takes nothing for so long is considered gone.
    send_seconds: float = 30.0
    # Then the client comes back with its token, which may have expired meanwhile, and perhaps to another server.
    most_seconds: float = 600.0
    # Until the token ends with which it was opened.
    token_seconds: float | None = None


class Alarm:
    """Rings when it has not been put off for so long. To put it off costs a number, not a timer: that is done for each
    listener whenever there is something to tell.
    """

    def __init__(self, seconds: float, ring: Callable[[], object]) -> None:
        self._seconds = seconds
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def put_off(self) -> None:
        self._due = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)

    def stop(self) -> None:
        self._due = None

    def close(self) -> None:
        self._due = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        else:
            self._due = None
            self._ring()


class Backlog(NamedTuple, Generic[P]):
    chunk: Chunk[P]
    is_last: bool


class Listener(Generic[P]):
    """Used on the event loop only; but for `place`, which anybody may read.

    The one rule: a listener takes a chunk if its place is between the ends of the chunk. A listener beyond it has seen
    it. One before it has missed something, and reads the table from its own place until it has caught up.
    """

    def __init__(self, place: P, read: Callable[[P], Awaitable[Backlog[P]]], limits: StreamLimits) -> None:
        self.place: P = place
        self.limits = limits
        self._read: Callable[[P], Awaitable[Backlog[P]]] = read
        self._queue: deque[Chunk[P]] = deque()
        self._queued_bytes = 0
        # Until somebody greets, nobody passes on what comes: whatever was read now might be followed by a gap.
        self._greeted = False
        self._behind = True
        self._closed = False
        self._is_quiet = False
        self._stirred = asyncio.Event()

    @property
    def queued(self) -> int:
        return len(self._queue)

    def greet(self) -> None:
        """From now on everything new is offered."""
        self._greeted = True
        self._stirred.set()

    def offer(self, chunk: Chunk[P]) -> None:
        size = self._queued_bytes + chunk.size_bytes
        if self._queue and (len(self._queue) >= self.limits.most_chunks or size > self.limits.most_bytes):
            self._drop_queue()
            self._behind = True
        else:
            self._queue.append(chunk)
            self._queued_bytes = size
        self._stirred.set()

    def pass_silence(self, until: P) -> None:
        """Nothing for this listener as far as that place."""
        if self._greeted and not self._behind and not self._queue and until > self.place:
            self.place = until

    def close(self) -> None:
        self._closed = True
        self._stirred.set()

    async def chunks(self) -> AsyncIterator[Chunk[P]]:
        """Until somebody closes it, or the job has ended; an empty chunk when there was nothing for some time. What
        there is to send is taken when the namespace has processor time for it, and not before.
        """
        quiet = Alarm(self.limits.ping_seconds, self._note_quiet)
        # A list, so that nothing here keeps a chunk that its taker has let go while it sends.
        chunks: list[Chunk[P] | None] = []
        try:
            while not self._closed:
                if self._greeted and (self._behind or self._queue):
                    await wait_for_share()
                if self._greeted and self._behind:
                    chunks.append(await self._catch_up())
                elif self._queue:
                    chunks.append(self._take())
                else:
                    quiet.put_off()
                    chunks.append(await self._wait())
                if chunks[0] is None:
                    chunks.clear()
                    continue
                is_end = chunks[0].end is not None
                yield chunks.pop()  # type: ignore[misc]
                if is_end:
                    return
        finally:
            quiet.close()

    def take_queued(self) -> Chunk[P] | None:
        """Another chunk for a listener that is about to send anyway; None if the listener has to wait for one."""
        return self._take() if self._queue and not self._behind else None

    def _note_quiet(self) -> None:
        self._is_quiet = True
        self._stirred.set()

    async def _wait(self) -> Chunk[P] | None:
        """Until something happens; an empty chunk if nothing did for long."""
        self._stirred.clear()
        self._is_quiet = False
        await self._stirred.wait()
        return Chunk(self.place, self.place, ()) if self._is_quiet and not self._queue else None

    async def _catch_up(self) -> Chunk[P] | None:
        self._behind = False  # whatever is dropped while this reads sets it again
        try:
            backlog = await self._read(self.place)
        except (psycopg.Error, PoolTimeout, PoolClosed, Problem) as error:
            log.warning("stream_cannot_read", error=type(error).__name__)
            self._behind = True
            self._drop_queue()
            await asyncio.sleep(RETRY_SECONDS)
            return Chunk(self.place, self.place, ())
        self._behind = self._behind or not backlog.is_last
        self.place = backlog.chunk.until
        return backlog.chunk if backlog.chunk.messages or backlog.chunk.end is not None else None

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0

    def _take(self) -> Chunk[P] | None:
        chunk = self._queue.popleft()
        self._queued_bytes -= chunk.size_bytes
        if chunk.after > self.place:
            self._behind = True
            return None
        if chunk.until <= self.place and chunk.end is None:
            return None
        rest = chunk.beyond(self.place)
        self.place = max(self.place, chunk.until)
        return rest
