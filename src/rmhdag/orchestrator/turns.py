"""Who comes next in a queue: one growing number per task gives every namespace, submitter and job its turn.

Each job advances its own mark by a step per task, starting from where the queue is now; so a job that has waited long
gains nothing, and one that has just come stands at the front of the next round. Namespaces share a queue equally,
whatever they do: a job steps further for each job of its fairness key, and for each fairness key of its namespace, that
competes with it. A higher priority takes smaller steps, at the expense of the other jobs of the same namespace.

A job competes while the queue has not reached its mark. One that waits for people, a child job or a timer has no task
in front of the queue, so it does not count, and nothing of it is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

STEP = 1_000
# Shares are whole numbers, so that what is added and taken away again leaves nothing behind.
SCALE = 1_000
MOST_LEFT_BEHIND = 1_000


@dataclass(slots=True)
class _Key:
    """The jobs of one fairness key that compete."""

    jobs: int = 0
    weight: int = 0

    @property
    def share(self) -> int:
        """The mean weight of its jobs: more jobs alone give a key no larger part of its namespace."""
        return SCALE * self.weight // self.jobs if self.jobs else 0


@dataclass(slots=True)
class _Namespace:
    share: int = 0
    keys: defaultdict[str, _Key] = field(default_factory=lambda: defaultdict(_Key))

    def count(self, fairness_key: str, jobs: int, weight: int) -> None:
        key = self.keys[fairness_key]
        self.share -= key.share
        key.jobs += jobs
        key.weight += weight
        self.share += key.share
        if not key.jobs:
            del self.keys[fairness_key]


@dataclass(slots=True)
class _Place:
    """A job in one queue."""

    job_id: str
    namespace: str
    fairness_key: str
    weight: int
    mark: int
    competes: bool = True


class _Queue:
    """Where a queue is, and the jobs that compete in it."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.places: dict[str, _Place] = {}
        self._namespaces: defaultdict[str, _Namespace] = defaultdict(_Namespace)
        # One entry per job, with a mark that it had; the number in the middle decides between equal marks.
        self._marks: list[tuple[int, int, _Place]] = []
        self._entered = 0

    def advance_to(self, order_key: int) -> None:
        """A task of this number has been served."""
        if order_key > self.now:
            self.now = order_key
            self._drop_marks_up_to(order_key)

    def begin_at(self, order_key: int) -> None:
        """A task of this number is the first that waits: its job still competes."""
        if order_key > self.now:
            self.now = order_key
            self._drop_marks_up_to(order_key - 1)

    def _drop_marks_up_to(self, order_key: int) -> None:
        while self._marks and self._marks[0][0] <= order_key:
            place = heappop(self._marks)[2]
            if not place.competes:
                continue
            if place.mark > order_key:
                self._note(place)
            else:
                self.leave(place.job_id)

    def next_mark(self, job_id: str, namespace: str, fairness_key: str, weight: int) -> int:
        place = self.places.get(job_id)
        is_new = place is None
        if place is None:
            place = self.places[job_id] = _Place(job_id, namespace, fairness_key, weight, self.now)
            self._namespaces[namespace].count(fairness_key, 1, weight)
        whole = self._namespaces[namespace]
        steps = whole.keys[fairness_key].jobs * whole.share
        place.mark += max(1, STEP * steps // (SCALE * place.weight))
        if is_new:
            self._note(place)
        return place.mark

    def leave(self, job_id: str) -> None:
        place = self.places.pop(job_id, None)
        if place is None:
            return
        place.competes = False
        whole = self._namespaces[place.namespace]
        whole.count(place.fairness_key, -1, -place.weight)
        if not whole.keys:
            del self._namespaces[place.namespace]
        # Jobs that were cancelled leave marks far ahead, which a queue without workers would never reach.
        if len(self._marks) > 2 * len(self.places) + MOST_LEFT_BEHIND:
            self._marks = [entry for entry in self._marks if entry[2].competes]
            heapify(self._marks)

    def _note(self, place: _Place) -> None:
        self._entered += 1
        heappush(self._marks, (place.mark, self._entered, place))


class Turns:
    """Marks per (queue, job), in the orchestrator's memory: losing them costs a little fairness, nothing else.

    Where a queue is now, results tell: each brings the number of its task. A queue without results is looked at.
    """

    def __init__(self, first_waiting: Callable[[str, int], int | None]) -> None:
        self._first_waiting = first_waiting
        self._queues: dict[str, _Queue] = {}

    def __len__(self) -> int:
        return sum(len(queue.places) for queue in self._queues.values())

    def queue_is_at(self, queue: str, order_key: int) -> None:
        """A task of this number has been served; the next round begins there."""
        state = self._queues.get(queue)
        if state is None:
            state = self._queues[queue] = _Queue(0)
        state.advance_to(order_key)

    def look_at_queues(self) -> None:
        """Others fill the queues too; without results of our own we would fall behind them."""
        for name, queue in self._queues.items():
            queue.begin_at(self._first_waiting(name, queue.now) or 0)

    def next_key(self, queue: str, job_id: str, namespace: str, fairness_key: str, priority: int) -> int:
        state = self._queues.get(queue)
        if state is None:
            state = self._queues[queue] = _Queue(self._first_waiting(queue, 0) or 0)
        return state.next_mark(job_id, namespace, fairness_key, priority + 1)

    def forget(self, job_id: str) -> None:
        """The job has ended, or belongs to somebody else."""
        for queue in self._queues.values():
            queue.leave(job_id)
