"""Loops that do not come round, told apart from a process that was frozen as a whole."""

from __future__ import annotations

from time import monotonic

from rmhdag.observability.supervision import Supervisor


class Overdue:
    """Used by one thread. After a freeze all loops look late for a moment: only what stays so is stuck."""

    def __init__(self, supervisor: Supervisor, stuck_seconds: float) -> None:
        self._supervisor = supervisor
        self._second_look_seconds = min(5.0, stuck_seconds / 4)
        self._late_since: float | None = None

    def give_up_if_stuck(self) -> bool:
        late = self._supervisor.late()
        if not late:
            self._late_since = None
            return False
        now = monotonic()
        if self._late_since is None:
            self._late_since = now
        if now - self._late_since < self._second_look_seconds:
            return False
        ages = ", ".join(f"{one.name} for {one.age_seconds:.0f} s" for one in late)
        self._supervisor.give_up(f"loops have not come round: {ages}")
        return True
