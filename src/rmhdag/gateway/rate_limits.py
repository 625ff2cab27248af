"""How many requests a client may send: a burst and an hour, counted in this process, and told in every answer."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from rmhdag.gateway.problems import Problem
from rmhdag.models.clients import ClientQuotas

MOST_CLIENTS = 100_000


class Window(NamedTuple):
    """Of a policy: `quota` requests in `seconds`."""

    name: str
    quota: int
    seconds: int


# Requests with a key that does not exist, from one address.
STRANGERS = Window("strangers", 10, 1)


class Buckets:
    """Each fills evenly up to its quota."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[tuple[str, ...], tuple[float, float]] = OrderedDict()

    def level(self, key: tuple[str, ...], window: Window) -> float:
        level, at = self._levels.get(key, (float(window.quota), self._clock()))
        return min(float(window.quota), level + (self._clock() - at) * window.quota / window.seconds)

    def take(self, key: tuple[str, ...], window: Window) -> float:
        """What is left; below zero, and nothing was taken, if there was less than one."""
        level = self.level(key, window) - 1
        if level < 0:
            return level
        self._levels[key] = (level, self._clock())
        self._levels.move_to_end(key)
        if len(self._levels) > MOST_CLIENTS:
            self._levels.popitem(last=False)
        return level


class RateLimits:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets = Buckets(clock)

    def take(self, namespace: str, client_id: str, quotas: ClientQuotas) -> dict[str, str]:
        """The headers of the answer; raises a 429 with the same headers."""
        windows = windows_of(quotas)
        keys = [(namespace, client_id, window.name) for window in windows]
        levels = [self._buckets.level(key, window) for key, window in zip(keys, windows, strict=True)]
        if min(levels) < 1:
            headers = _headers(windows, levels)
            waits = [
                (1 - level) * window.seconds / window.quota
                for level, window in zip(levels, windows, strict=True)
                if level < 1
            ]
            headers["Retry-After"] = str(max(1, math.ceil(max(waits))))
            raise Problem(
                429,
                "too_many_requests",
                "this client has sent more requests than its quota allows",
                remedy="Wait for the seconds in Retry-After. Poll a request every few seconds, or use a callback.",
                headers=headers,
            )
        return _headers(windows, [self._buckets.take(key, window) for key, window in zip(keys, windows, strict=True)])

    def refuse_guesses(self, address: str) -> None:
        """Raises a 429 for an address from which too many wrong keys came: guessing must cost the database nothing."""
        if self._buckets.level(("", address, STRANGERS.name), STRANGERS) < 1:
            detail = "too many requests without a valid key came from this address"
            raise Problem(429, "too_many_requests", detail, headers={"Retry-After": "1"})

    def note_guess(self, address: str) -> None:
        self._buckets.take(("", address, STRANGERS.name), STRANGERS)


def windows_of(quotas: ClientQuotas) -> tuple[Window, ...]:
    return Window("second", quotas.requests_per_second, 1), Window("hour", quotas.requests_per_hour, 3600)


def _headers(windows: tuple[Window, ...], levels: list[float]) -> dict[str, str]:
    """RateLimit fields for HTTP, draft 11: what is left, and when all of it is back."""
    policy = ", ".join(f'"{window.name}";q={window.quota};w={window.seconds}' for window in windows)
    limits = [
        f'"{window.name}";r={max(0, int(level))};t={math.ceil((window.quota - level) * window.seconds / window.quota)}'
        for window, level in zip(windows, levels, strict=True)
    ]
    return {"RateLimit-Policy": policy, "RateLimit": ", ".join(limits)}
