"""The child processes of a worker: one per slot, replaced when they die, read through one selector."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable

from rmhdag.observability.logs import get_logger
from rmhdag.worker.child_process import ChildKind, ChildProcess, Ending
from rmhdag.worker.scratch import Scratch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.trust import TrustPage

log = get_logger(__name__)
QUICK_DEATH_SECONDS = 5.0
MOST_PAUSE_SECONDS = 5.0
Listen = Callable[[ChildProcess], object]


class Staff:
    """`listen` is called when a child has sent frames, `read_output` when it has written to its output."""

    def __init__(
        self,
        settings: WorkerSettings,
        scratch: Scratch,
        trust: TrustPage,
        selector: selectors.BaseSelector,
        listen: Listen,
        read_output: Listen,
    ) -> None:
        self.children: list[ChildProcess] = []
        self.is_hiring = True
        self._settings = settings
        self._scratch = scratch
        self._trust = trust
        self._selector = selector
        self._listen = listen
        self._read_output = read_output
        self._quick_deaths = 0
        self._hire_at = 0.0

    def hire(self, now: float) -> None:
        """Start children until there is one per slot, replacing those that died."""
        if not self.is_hiring or now < self._hire_at:
            return
        missing = self._settings.concurrency - sum(child.kind is ChildKind.ALONE for child in self.children)
        try:
            for _ in range(missing):
                self._start(ChildKind.ALONE)
        except OSError as error:
            self._hire_at = now + 1.0
            log.error("child_not_started", error=str(error), remedy="it is tried again")

    def shared_child(self) -> ChildProcess | None:
        """The shared child, started on first use. If it cannot start, light tasks run alone like the others."""
        for child in self.children:
            if child.kind is ChildKind.SHARED and not child.is_killed and not child.is_deaf:
                return child
        try:
            return self._start(ChildKind.SHARED)
        except OSError as error:
            log.error("child_not_started", error=str(error), remedy="light tasks run alone")
            return None

    def _start(self, kind: ChildKind) -> ChildProcess:
        child = ChildProcess(kind, self._settings, self._scratch.folder, self._trust)
        self.children.append(child)
        self._selector.register(child.socket, selectors.EVENT_READ, (self._listen, child))
        self._selector.register(child.output, selectors.EVENT_READ, (self._read_output, child))
        return child

    def flush(self, child: ChildProcess) -> None:
        if child.has_output and child.flush():
            self._selector.modify(child.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, (self._listen, child))
            child.waits_to_write = True

    def flush_what_waits(self, child: ChildProcess) -> None:
        """Send the remaining frames when the selector reports that the socket is writable."""
        if child.waits_to_write and not child.flush():
            child.waits_to_write = False
            self._selector.modify(child.socket, selectors.EVENT_READ, (self._listen, child))

    def become_deaf(self, child: ChildProcess) -> None:
        if not child.is_deaf:
            child.is_deaf, child.deaf_since = True, time.monotonic()
            self._selector.unregister(child.socket)

    def become_mute(self, child: ChildProcess) -> None:
        if not child.is_mute:
            child.is_mute = True
            self._selector.unregister(child.output)

    def dismiss(self, child: ChildProcess) -> None:
        """Remove a child that has ended and whose output has been read."""
        self.become_deaf(child)
        self.become_mute(child)
        self.children.remove(child)
        child.close()

    def note_death(self, child: ChildProcess, ending: Ending) -> None:
        """Children that die before they are ready are not replaced in a tight loop."""
        if not self.is_hiring:
            return
        now = time.monotonic()
        is_quick = now - child.started_at < QUICK_DEATH_SECONDS
        if is_quick and not child.is_killed and not child.tasks_done and not child.leases:
            self._quick_deaths += 1
            self._hire_at = now + min(MOST_PAUSE_SECONDS, 0.1 * 2 ** min(self._quick_deaths, 10))
            log.error("child_died_at_its_start", error=ending.describe(), last_words=child.last_words.strip())
        else:
            self._quick_deaths = 0
