"""Which child gets which task, which tasks wait for a child, and how many more the worker can take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rmhdag.observability.logs import get_logger
from rmhdag.worker.child_process import ChildKind, ChildProcess
from rmhdag.worker.lease import Lease
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.staff import Staff

log = get_logger(__name__)
# By then the answer may be lost; asking again changes nothing on the server.
ASK_AGAIN_SECONDS = 5.0


class Placement:
    """`mark_start` records the start of a task; `is_alone` tells whether the worker has no other task."""

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

    @property
    def waiting_count(self) -> int:
        """From any thread: only that of the supervisor may walk through the line."""
        return len(self._waiting)

    def waiting(self) -> list[Lease]:
        return list(self._waiting)

    def add(self, lease: Lease) -> None:
        self._waiting.append(lease)

    def withdraw(self, lease: Lease) -> None:
        """Remove the task from the line, and free the child that is reserved for it."""
        if lease in self._waiting:
            self._waiting.remove(lease)
        for child in self._staff.children:
            if child.reserved_for is lease:
                child.reserved_for = None

    def take_waiting(self, now: float) -> list[Lease]:
        """Tasks that have waited too long here and may go to other workers."""
        waiting, self._waiting = self._waiting, deque()
        leases = []
        for lease in waiting:
            patience = self._settings.patience_seconds
            if lease.needs_whole_worker:
                patience = self._settings.reserve_seconds
            if lease.was_with_the_dead or now - lease.waits_since < patience:
                self._waiting.append(lease)
            else:
                leases.append(lease)
        return leases

    def clear(self) -> None:
        self._waiting.clear()

    def learn(self, seconds: float) -> None:
        """Learn how long a task took. Rises quickly and falls slowly: too many tasks are worse than too few."""
        weight = 0.5 if seconds > self._average_seconds else 0.1
        self._average_seconds += weight * (seconds - self._average_seconds)

    def room(self) -> int:
        """How many more tasks the slots can take, now or within the prefetch time."""
        depth = self._depth()
        free = sum(max(0, depth - len(child.leases)) for child in self._staff.children if child.takes_tasks)
        return free - len(self._waiting)

    def _depth(self) -> int:
        """The running task, and as many behind it as will begin within the prefetch time."""
        fitting = self._settings.prefetch_seconds / max(self._average_seconds, 1e-6)
        return min(self._settings.prefetch_tasks, 1 + int(fitting))

    def place(self) -> None:
        """Give waiting tasks to children; tasks without a free child keep waiting."""
        if self._waiting:
            depth = self._depth()
            waiting, self._waiting = self._waiting, deque()
            takers = [child for child in self._staff.children if child.takes_tasks]
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
        child = min(self._lanes_of(lease, takers), key=_load, default=None)
        if child is None or len(child.leases) >= depth:
            return False
        if lease.runs_alone:
            child.reserved_for = lease
            takers.remove(child)
        else:
            self._send(lease, child)
        return True

    def _lanes_of(self, lease: Lease, takers: list[ChildProcess]) -> list[ChildProcess]:
        """Children that may run the task: a namespace at its limit of slots keeps to those that it already uses."""
        lanes, namespace = lease.task.lanes, lease.task.namespace
        if lanes is None:
            return takers
        used = [child for child in self._staff.children if child.kind is ChildKind.ALONE and _has_any(child, namespace)]
        return takers if len(used) < lanes else [child for child in takers if child in used]

    def _use_reserved(self, child: ChildProcess, lease: Lease) -> None:
        """Send a task to an idle child. A start that must be counted is marked before it happens."""
        if not lease.must_mark_start_first:
            child.reserved_for = None
            self._send(lease, child)
        elif not lease.is_start_asked or time.monotonic() - lease.start_asked_at > ASK_AGAIN_SECONDS:
            self._mark_start(lease)

    def _send(self, lease: Lease, child: ChildProcess) -> None:
        child.send_task(lease, self._next_key)
        self._next_key += 1


def _has_any(child: ChildProcess, namespace: str) -> bool:
    kept_for = child.reserved_for
    if kept_for is not None and kept_for.task.namespace == namespace:
        return True
    return any(lease.task.namespace == namespace for lease in child.leases.values())


def _load(child: ChildProcess) -> int:
    return len(child.leases)
