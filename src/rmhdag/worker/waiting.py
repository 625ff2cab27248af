"""A queue between two threads: one adds entries, the other reads them and removes them once they are sent."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiting(Generic[T]):
    """Nothing is removed before it is sent, so the sender reads first. A bare deque may grow while its beginning is
    copied, which then fails.
    """

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._things)

    def add(self, *things: T) -> None:
        with self._lock:
            self._things.extend(things)

    def first(self, most: int | None = None) -> list[T]:
        with self._lock:
            return list(islice(self._things, most))

    def drop(self, count: int) -> None:
        """Remove the first entries; there may be fewer if all were cleared meanwhile."""
        with self._lock:
            for _ in range(min(count, len(self._things))):
                self._things.popleft()

    def clear(self) -> None:
        with self._lock:
            self._things.clear()
