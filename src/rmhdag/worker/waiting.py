"""What waits to be sent: left by one thread, looked at and then taken away by another."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiting(Generic[T]):
    """Nothing is taken away before it is sent, so the sender looks first. A bare deque may grow between the two steps
    of looking at its beginning, which then fails.
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
        """The first ones; fewer are left if all were cleared meanwhile."""
        with self._lock:
            for _ in range(min(count, len(self._things))):
                self._things.popleft()

    def clear(self) -> None:
        with self._lock:
            self._things.clear()
