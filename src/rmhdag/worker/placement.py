"""Which child gets which task, what waits for one, and how many more tasks there is room for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rmhdag.observability.logs import get_logger
from rmhdag.worker.child_process import ChildProcess
from rmhdag.worker.lease import Lease
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.staff import Staff

log = get_logger(__name__)
# An answer that has not come by then is perhaps lost; asking again changes nothing on the other side.
ASK_AGAIN_SECONDS = 5.0


class Placement:
    """`mark_start` has the start of a task recorded; `is_alone` says whether it is all that the worker has."""

    def __init__(
        self,
        settings: WorkerSettings,
        staff: Staff,
        mark_start: Callable[[Lease], None],
        is_alone: Callable[[Lease], bool],
        note_trouble: Callable[[Lease, Exception], None],
    ) -> None:
        self.light_handlers: frozenset[str] = frozenset()
        self._settings = settings
        self._staff = staff
        self._mark_start = mark_start
        self._is_alone = is_alone
        self._note_trouble = note_trouble
        self._waiting: deque[Lease] = deque()
        self._next_key = 1
        # Pessimistic, so that the first claims are small.
        self._average_seconds = 1.0

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def waiting(self) -> list[Lease]:
        return list(self._waiting)

    def add(self, lease: Lease) -> None:
        self._waiting.append(lease)

    def withdraw(self, lease: Lease) -> None:
        """It waits no longer, neither here nor for the child that is kept for it."""
        if lease in self._waiting:
            self._waiting.remove(lease)
        for child in self._staff.children:
            if child.reserved_for is lease:
                child.reserved_for = None

    def take_waiting(self, now: float) -> list[Lease]:
        """Those that have waited for too long, and that others may have before they have run here."""
        waiting, self._waiting = self._waiting, deque()
        taken = []
        for lease in waiting:
            patience = self._settings.patience_seconds
            if lease.needs_whole_worker:
                patience = self._settings.reserve_seconds
            if lease.was_with_the_dead or now - lease.waits_since < patience:
                self._waiting.append(lease)
            else:
                taken.append(lease)
        return taken

    def clear(self) -> None:
        self._waiting.clear()

    def learn(self, seconds: float) -> None:
        """How long a task took. Rises quickly and falls slowly: taking too much is worse than taking too little."""
        weight = 0.5 if seconds > self._average_seconds else 0.1
        self._average_seconds += weight * (seconds - self._average_seconds)

    def room(self) -> int:
        """How many more tasks there are slots for, now or within the time that prefetching covers."""
        depth = self._depth()
        free = sum(max(0, depth - len(one.leases)) for one in self._staff.children if one.takes_tasks)
        return free - len(self._waiting)

    def _depth(self) -> int:
        """One that runs, and as many behind it as are begun within the time that prefetching covers."""
        fitting = self._settings.prefetch_seconds / max(self._average_seconds, 1e-6)
        return min(self._settings.prefetch_tasks, 1 + int(fitting))

    def place(self) -> None:
        """Give waiting tasks to children; those that find none wait on."""
        if self._waiting:
            depth = self._depth()
            waiting, self._waiting = self._waiting, deque()
            takers = [one for one in self._staff.children if one.takes_tasks]
            for lease in waiting:
                try:
                    is_placed = self._place_one(lease, takers, depth)
                except Exception as error:
                    log.exception("task_not_placed", error=type(error).__name__, **lease.ids)
                    self._note_trouble(lease, error)
                    continue
                if not is_placed:
                    self._waiting.append(lease)
        for child in self._staff.children:
            if child.reserved_for is not None and not child.leases:
                self._use_reserved(child, child.reserved_for)
            self._staff.flush(child)

    def _place_one(self, lease: Lease, takers: list[ChildProcess], depth: int) -> bool:
        if lease.needs_whole_worker and not self._is_alone(lease):
            return False
        if not lease.runs_alone and lease.task.handler in self.light_handlers:
            shared = self._staff.shared_child()
            if shared is not None and len(shared.leases) < self._settings.light_concurrency:
                self._send(lease, shared)
                return True
        child = min(takers, key=_load, default=None)
        if child is None or len(child.leases) >= depth:
            return False
        if lease.runs_alone:
            child.reserved_for = lease
            takers.remove(child)
        else:
            self._send(lease, child)
        return True

    def _use_reserved(self, child: ChildProcess, lease: Lease) -> None:
        """The child has nothing else to do now. A start that must count is marked before it happens."""
        if not lease.must_mark_start_first:
            child.reserved_for = None
            self._send(lease, child)
        elif not lease.is_start_asked or time.monotonic() - lease.start_asked_at > ASK_AGAIN_SECONDS:
            self._mark_start(lease)

    def _send(self, lease: Lease, child: ChildProcess) -> None:
        child.send_task(lease, self._next_key)
        self._next_key += 1


def _load(child: ChildProcess) -> int:
    return len(child.leases)
