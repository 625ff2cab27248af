"""Limits how much one caller may request per second; a caller above the limit learns when to retry."""

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
# Of processor time: enough for a page with many pictures, or a batch of jobs.
PROCESSOR_BURST_SECONDS = 2.0
# A namespace is alone if no other one has called for so long.
ALONE_SECONDS = 10.0
MOST_DEBT_SECONDS = 5.0


class Counted(NamedTuple):
    """What is counted, and the answer to a caller that exceeds the limit."""

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
            tokens, at = self._buckets.get(name, (most, now))
            tokens = min(most, tokens + (now - at) * per_second)
            missing = min(max(count, 1), most) - tokens
            if missing <= 0:
                tokens -= count
            self._buckets[name] = (tokens, now)
            self._buckets.move_to_end(name)
            if len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
        return missing


class ProcessorBudget:
    """Processor time per namespace, paid afterwards: who has used too much is refused until enough time has passed.

    A namespace that calls alone may use all of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        # The last that called, and the last other one.
        self._latest = self._other = ("", -math.inf)

    def note_call(self, namespace: str) -> None:
        with self._lock:
            if namespace != self._latest[0]:
                self._other = self._latest
            self._latest = (namespace, self._clock())

    def charge(self, name: str, seconds: float, per_second: float) -> None:
        """Not more than is forgiven in some seconds: who was alone until now is not locked out for long."""
        with self._lock:
            now = self._clock()
            budget = max(self._refilled(name, now, per_second) - seconds, -MOST_DEBT_SECONDS * per_second)
            self._left[name] = (budget, now)
            self._left.move_to_end(name)
            if len(self._left) > MOST_CALLERS:
                self._left.popitem(last=False)

    def seconds_to_wait(self, namespace: str, name: str, per_second: float) -> float:
        """Until `name`, which belongs to the namespace, may go on; 0 while nobody else calls."""
        with self._lock:
            now = self._clock()
            other_called_at = (self._other if self._latest[0] == namespace else self._latest)[1]
            if now - other_called_at > ALONE_SECONDS:
                return 0.0
            return max(0.0, -self._refilled(name, now, per_second) / per_second)

    def _refilled(self, name: str, now: float, per_second: float) -> float:
        most = per_second * PROCESSOR_BURST_SECONDS
        budget, at = self._left.get(name, (most, now))
        return min(most, budget + (now - at) * per_second)


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
