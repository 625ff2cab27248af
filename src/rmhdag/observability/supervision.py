"""Supervised threads: one that fails is restarted; one that keeps failing or hangs ends the life of the process.

A heartbeat proves only that one thread is alive. What counts is the age of finished work: every loop marks its turns,
and the heartbeat checks the marks first.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

from rmhdag.observability.logs import get_logger

log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# A thread that fails this often within the window is not helped by another restart.
MOST_RESTARTS = 10
WINDOW_SECONDS = 60.0


class Loop:
    """One loop as other threads see it."""

    def __init__(self, name: str, patience_seconds: float) -> None:
        self.name = name
        self.patience_seconds = patience_seconds
        self.restarts = 0
        self.restarted_at: float | None = None
        self._turned_at = monotonic()

    def turn(self) -> None:
        """Mark a turn of the loop, or progress of a long piece of work."""
        self._turned_at = monotonic()

    @property
    def age_seconds(self) -> float:
        return monotonic() - self._turned_at

    @property
    def is_late(self) -> bool:
        return self.age_seconds > self.patience_seconds


class Supervisor:
    """The loops of one life. `give_up` is called once, with the reason, from the thread that noticed it."""

    def __init__(self, over: threading.Event, give_up: Callable[[str], None]) -> None:
        self._over = over
        self._give_up = give_up
        self._gave_up = threading.Lock()
        self._loops: dict[str, Loop] = {}
        self._threads: list[threading.Thread] = []

    def watch(self, name: str, patience_seconds: float) -> Loop:
        """Add a loop that runs in another thread, such as the main one."""
        loop = self._loops[name] = Loop(name, patience_seconds)
        return loop

    def start(self, name: str, target: Callable[[Loop], None], patience_seconds: float) -> None:
        """Run `target` in a thread until it returns; after an exception it is restarted after a growing pause."""
        loop = self.watch(name, patience_seconds)
        thread = threading.Thread(target=self._run, args=(loop, target), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, timeout_seconds: float, *names: str) -> list[str]:
        """Wait for all threads, or for the named ones; returns the names of those that are still running."""
        deadline = monotonic() + timeout_seconds
        threads = [thread for thread in self._threads if not names or thread.name in names]
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))
        return [thread.name for thread in threads if thread.is_alive()]

    def late(self) -> list[Loop]:
        return [loop for loop in self._loops.values() if loop.is_late]

    def give_up(self, reason: str) -> None:
        if self._gave_up.acquire(blocking=False):
            log.error("life_given_up", reason=reason)
            self._give_up(reason)

    def ages(self) -> dict[str, float]:
        return {name: round(loop.age_seconds, 1) for name, loop in self._loops.items()}

    def restarts(self) -> dict[str, int]:
        return {name: loop.restarts for name, loop in self._loops.items()}

    def seconds_since_restart(self) -> float | None:
        """Seconds since the last restart of any thread; None if there was none."""
        times = [loop.restarted_at for loop in self._loops.values() if loop.restarted_at is not None]
        return round(monotonic() - max(times), 1) if times else None

    def _run(self, loop: Loop, target: Callable[[Loop], None]) -> None:
        failures: deque[float] = deque(maxlen=MOST_RESTARTS)
        while not self._over.is_set():
            loop.turn()
            try:
                target(loop)
                return
            except Exception as error:
                loop.restarts += 1
                loop.restarted_at = monotonic()
                log.exception("thread_failed", thread=loop.name, restarts=loop.restarts, error=type(error).__name__)
                failures.append(monotonic())
            if len(failures) == MOST_RESTARTS and failures[-1] - failures[0] < WINDOW_SECONDS:
                self.give_up(f"the thread {loop.name} failed {MOST_RESTARTS} times within {WINDOW_SECONDS:g} s")
                return
            recent = sum(1 for at in failures if failures[-1] - at < WINDOW_SECONDS)
            self._over.wait(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (recent - 1)))


class Overdue:
    """Used by one thread. After a freeze all loops look late for a moment: only a loop that stays late is stuck."""

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
        ages = ", ".join(f"{loop.name} for {loop.age_seconds:.0f} s" for loop in late)
        self._supervisor.give_up(f"loops are stuck: {ages}")
        return True
