"""Fan-ins that wait for their reduction: each request once, however often its job was loaded meanwhile."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from rmhdag.engine.effects import AggregationRequested
from rmhdag.engine.plan import Plan


class FanInRequest(NamedTuple):
    job_id: str
    plan: Plan
    namespace: str
    wanted: AggregationRequested
    failures: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.job_id, self.wanted.node_id


class FanInLine:
    """Given to by the loop, taken from by the thread that reduces."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: OrderedDict[tuple[str, str], FanInRequest] = OrderedDict()
        self._current: tuple[str, str] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: tuple[str, str]) -> bool:
        with self._changed:
            return key in self._waiting or key == self._current

    def add(self, request: FanInRequest) -> None:
        with self._changed:
            if request.key not in self._waiting and request.key != self._current:
                self._waiting[request.key] = request
                self._changed.notify()

    def take(self, timeout_seconds: float = 0.0) -> FanInRequest | None:
        """The request to work on now; `finish` or `postpone` it afterwards."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting), timeout_seconds)
            if not self._waiting:
                return None
            self._current, request = self._waiting.popitem(last=False)
            return request

    def finish(self) -> None:
        with self._changed:
            self._current = None

    def postpone(self, request: FanInRequest) -> None:
        """To the end of the line: one that fails does not hold up the others."""
        with self._changed:
            self._current = None
            self._waiting[request.key] = request._replace(failures=request.failures + 1)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
