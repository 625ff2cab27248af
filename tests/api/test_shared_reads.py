"""Many listeners that go back to the table at the same place: one read for all of them, whoever leaves meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rmhdag.api.streams.chunks import Chunk, Message
from rmhdag.api.streams.listener import Backlog
from rmhdag.api.streams.shared_reads import AT_ONCE, KEPT_PAGES, SharedReads


class Table:
    """Pages of one event each, as many as are asked for; a read waits for `gate`."""

    def __init__(self, *, is_last: bool = False) -> None:
        self.is_last = is_last
        self.gate = threading.Event()
        self.asked = threading.Semaphore(0)
        self.reads: list[int] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def page_after(self, place: int) -> Backlog[int]:
        with self._lock:
            self.reads.append(place)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        self.asked.release()
        assert self.gate.wait(10)
        with self._lock:
            self._now -= 1
        if place < 0:
            raise ConnectionError("gone")
        return Backlog(Chunk(place, place + 1, (Message(place + 1, b"{}"),)), self.is_last)

    async def until_asked(self) -> None:
        """Once for each read that has begun."""
        assert await asyncio.to_thread(self.asked.acquire, timeout=10)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_those_at_the_same_place_share_a_read_and_the_page() -> None:
    async def test() -> None:
        reads, table = SharedReads(), Table()
        asked = [asyncio.create_task(reads.read("all", 7, table.page_after)) for _ in range(50)]
        await table.until_asked()
        table.gate.set()
        pages = await asyncio.gather(*asked)
        assert table.reads == [7]
        assert all(page is pages[0] for page in pages)
        # Whoever is a little slower finds it too; another stream's page is another.
        assert await reads.read("all", 7, table.page_after) is pages[0]
        await reads.read("job", 7, table.page_after)
        assert table.reads == [7, 7]

    run(test)


def test_a_page_that_may_grow_is_not_kept() -> None:
    async def test() -> None:
        reads, table = SharedReads(), Table(is_last=True)
        table.gate.set()
        await reads.read("all", 7, table.page_after)
        await reads.read("all", 7, table.page_after)
        assert table.reads == [7, 7]

    run(test)


def test_only_the_newest_pages_are_kept() -> None:
    async def test() -> None:
        reads, table = SharedReads(), Table()
        table.gate.set()
        for place in range(KEPT_PAGES + 1):
            await reads.read("all", place, table.page_after)
        await reads.read("all", KEPT_PAGES, table.page_after)
        assert len(table.reads) == KEPT_PAGES + 1
        await reads.read("all", 0, table.page_after)
        assert table.reads[-1] == 0

    run(test)


def test_whoever_leaves_does_not_take_the_page_along() -> None:
    async def test() -> None:
        reads, table = SharedReads(), Table()
        first = asyncio.create_task(reads.read("all", 7, table.page_after))
        await table.until_asked()
        second = asyncio.create_task(reads.read("all", 7, table.page_after))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        table.gate.set()
        assert (await second).chunk.until == 8
        assert table.reads == [7]

    run(test)


def test_a_failed_read_fails_for_all_who_wait_and_is_tried_again() -> None:
    async def test() -> None:
        reads, table = SharedReads(), Table()
        asked = [asyncio.create_task(reads.read("all", -1, table.page_after)) for _ in range(3)]
        await table.until_asked()
        table.gate.set()
        assert [type(error) for error in await asyncio.gather(*asked, return_exceptions=True)] == [ConnectionError] * 3
        with pytest.raises(ConnectionError):
            await reads.read("all", -1, table.page_after)
        assert table.reads == [-1, -1]

    run(test)


def test_few_read_at_once() -> None:
    async def test() -> None:
        reads, table = SharedReads(), Table()
        asked = [asyncio.create_task(reads.read("all", place, table.page_after)) for place in range(20)]
        for _ in range(AT_ONCE):
            await table.until_asked()
        table.gate.set()
        await asyncio.gather(*asked)
        assert table.most_at_once == AT_ONCE

    run(test)
