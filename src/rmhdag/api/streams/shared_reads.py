"""Listeners that go back to the table: a few at once, and one read for all who are at the same place.

After a burst, or when a server comes back, hundreds want the same pages at the same moment.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from rmhdag.api.processor_time import Semaphores, current_account, run_in_turn
from rmhdag.api.streams.chunks import P
from rmhdag.api.streams.listener import Backlog

AT_ONCE = 3
# Those who follow at a little distance find it here.
KEPT_PAGES = 8


class SharedReads:
    """Used on the event loop only."""

    def __init__(self) -> None:
        self._turns = Semaphores()
        self._under_way: dict[Hashable, asyncio.Task[Backlog[Any]]] = {}
        self._kept: OrderedDict[Hashable, Backlog[Any]] = OrderedDict()

    async def read(self, stream: Hashable, place: P, page_after: Callable[[P], Backlog[P]]) -> Backlog[P]:
        """The page behind that place; `stream` says of what, for all who would be told the same."""
        key = (stream, place)
        if key in self._kept:
            return self._kept[key]
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._read(page_after, place))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._put_away(key, done))
        # A listener that leaves must not take the page from the others.
        return await asyncio.shield(task)

    async def _read(self, page_after: Callable[[P], Backlog[P]], place: P) -> Backlog[P]:
        # By namespace: one whose reads wait for a lock holds up its own streams only.
        with self._turns.one(current_account(), AT_ONCE) as semaphore:
            async with semaphore:
                return await run_in_turn(page_after, place)

    def _put_away(self, key: Hashable, task: asyncio.Task[Backlog[Any]]) -> None:
        del self._under_way[key]
        if task.cancelled() or task.exception() is not None or task.result().is_last:
            return
        # A full page never changes: what is behind its last event comes later.
        self._kept[key] = task.result()
        if len(self._kept) > KEPT_PAGES:
            self._kept.popitem(last=False)
