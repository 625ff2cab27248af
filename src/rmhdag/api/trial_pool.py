"""Room for requests that wait for something to run: few at a time, and no namespace has all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rmhdag.api.problems import Problem
from rmhdag.api.quotas import RETRY_SECONDS, quota_exceeded

AT_ONCE = 4


class TrialPool:
    """Only touched by the event loop, so that nothing has to be locked."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._running: Counter[str] = Counter()

    @contextmanager
    def place(self, namespace: str, most: int) -> Iterator[None]:
        """Raises a 429 if there is none."""
        if self._running[namespace] >= most:
            raise quota_exceeded("handler_trials", most, self._running[namespace])
        if self._running.total() >= self._at_once:
            raise Problem(
                429,
                "too_many_trials",
                f"{self._at_once} handlers are being tried at this moment",
                remedy="Try again after the time in Retry-After.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self._running[namespace] += 1
        try:
            yield
        finally:
            self._running[namespace] -= 1
            if not self._running[namespace]:
                del self._running[namespace]
