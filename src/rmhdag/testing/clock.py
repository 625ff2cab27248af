"""A virtual clock: it runs everything that is due, then jumps to the next moment at which something is due."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True, order=True)
class Due:
    """An action at a moment, unless it has become void. `is_patience`: a person's time to decide ends."""

    at: datetime
    order: int
    act: Callable[[], None] = field(compare=False)
    is_void: Callable[[], bool] = field(compare=False)
    is_patience: bool = field(compare=False, default=False)


class VirtualClock:
    def __init__(self) -> None:
        self.now = EPOCH
        self._soon: deque[Callable[[], None]] = deque()
        self._agenda: list[Due] = []
        self._order = 0

    def soon(self, act: Callable[[], None]) -> None:
        """Run an action now, after the current one."""
        self._soon.append(act)

    def at(
        self, at: datetime, act: Callable[[], None], is_void: Callable[[], bool], *, is_patience: bool = False
    ) -> None:
        self._order += 1
        heappush(self._agenda, Due(at, self._order, act, is_void, is_patience))

    def after(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def settle(self) -> None:
        """Run all actions that are due now."""
        while self._soon:
            self._soon.popleft()()

    def advance(self, until: datetime | None) -> bool:
        """Go to the next moment with an action and run it.

        False if there is none until then; without `until`, also if only a person's time to decide remains.
        """
        while self._agenda and self._agenda[0].is_void():
            heappop(self._agenda)
        if not self._agenda or (until is not None and self._agenda[0].at > until):
            return False
        if until is None and all(due.is_patience or due.is_void() for due in self._agenda):
            return False
        due = heappop(self._agenda)
        self.now = due.at
        due.act()
        self.settle()
        return True
