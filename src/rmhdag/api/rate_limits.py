"""How much one caller may ask for in a second; whoever asks for more is told when to come back."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from rmhdag.api.problems import Problem

MOST_CALLERS = 10_000
# What may be asked for at once, if nothing was asked for before, in seconds' worth.
BURST_SECONDS = 2.0


class Counted(NamedTuple):
    """What is counted by whom, and what whoever asks for too much is told."""

    code: str
    what: str
    remedy: str


SUBMISSIONS = Counted("too_many_submissions", "jobs a second with one key", "submit in batches at a steady pace")
REQUESTS = Counted("too_many_requests", "requests a second with one key", "ask for more at once and less often")


class Buckets:
    """A bucket per name that fills with time, up to what it gets in BURST_SECONDS."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_second: float, count: int) -> float:
        """How much is missing; nothing is taken then. Who asks for more than fits into a bucket gets it from a full
        one, and waits the longer afterwards. Asked for nothing, an empty bucket still misses something.
        """
        most = per_second * BURST_SECONDS
        with self._lock:
            now = self._clock()
            left, at = self._buckets.get(name, (most, now))
            left = min(most, left + (now - at) * per_second)
            missing = min(max(count, 1), most) - left
            if missing <= 0:
                left -= count
            self._buckets[name] = (left, now)
            self._buckets.move_to_end(name)
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
        return missing


class RateLimit:
    """A bucket per caller that fills with time. It belongs to this process: n processes let n times as much through."""

    def __init__(
        self, per_second: float, counted: Counted = SUBMISSIONS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._counted = counted
        self._buckets = Buckets(clock)

    def take(self, caller: str, count: int = 1) -> None:
        """Raises a 429. Who asks for more than fits into a bucket gets it from a full one, and waits the longer."""
        missing = self._buckets.take(caller, self._per_second, count)
        if missing > 0:
            seconds = max(1, math.ceil(missing / self._per_second))
            raise Problem(
                429,
                self._counted.code,
                f"more than {self._per_second:g} {self._counted.what}",
                remedy=f"Try again in {seconds} s, or {self._counted.remedy}.",
                headers={"Retry-After": str(seconds)},
            )
