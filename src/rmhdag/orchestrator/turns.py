"""Who comes next in a queue: one growing number per task gives every submitter, and every job of a submitter, its turn.

Each job advances its own mark by a step per task, starting from where the queue is now; so a job that has waited long
gains nothing, and one that has just come stands at the front of the next round. A submitter with many jobs takes larger
steps with each, so that submitters share equally; a higher priority takes smaller ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

STEP = 1_000
# A job that has queued nothing for so long does not compete: it waits for people, or belongs to somebody else by now.
REMEMBERED_SECONDS = 60.0


class Turns:
    """Marks per (queue, job), in the orchestrator's memory: losing them costs a little fairness, nothing else.

    Where a queue is now, results tell: each brings the number of its task. A queue without results is looked at.
    """

    def __init__(self, first_waiting: Callable[[str, int], int | None], clock: Callable[[], float] = monotonic) -> None:
        self._first_waiting = first_waiting
        self._clock = clock
        self._now: dict[str, int] = {}
        # fairness key → its jobs, the one that queued last at the end, with the time of that
        self._jobs_of_key: dict[str, OrderedDict[str, float]] = {}
        # job → its fairness key and its mark in each queue
        self._marks: dict[str, tuple[str, dict[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def queue_is_at(self, queue: str, order_key: int) -> None:
        """A task of this number has been served; the next round begins there."""
        if order_key > self._now.get(queue, 0):
            self._now[queue] = order_key

    def look_at_queues(self) -> None:
        """Others fill the queues too; without results of our own we would fall behind them."""
        for queue in self._now:
            self.queue_is_at(queue, self._first_waiting(queue, self._now[queue]) or 0)

    def next_key(self, queue: str, job_id: str, fairness_key: str, priority: int) -> int:
        if queue not in self._now:
            self._now[queue] = self._first_waiting(queue, 0) or 0
        jobs = self._jobs_of_key.get(fairness_key)
        if jobs is None:
            jobs = self._jobs_of_key[fairness_key] = OrderedDict()
        now = self._clock()
        jobs[job_id] = now
        jobs.move_to_end(job_id)
        while next(iter(jobs.values())) < now - REMEMBERED_SECONDS:
            self.forget(next(iter(jobs)))
        known = self._marks.get(job_id)
        if known is None:
            known = self._marks[job_id] = (fairness_key, {})
        mark = max(self._now[queue], known[1].get(queue, 0))
        mark += max(1, STEP * len(jobs) // (priority + 1))
        known[1][queue] = mark
        return mark

    def forget(self, job_id: str) -> None:
        """The job has ended, belongs to somebody else, or has been quiet for long."""
        known = self._marks.pop(job_id, None)
        if known is None:
            return
        jobs = self._jobs_of_key[known[0]]
        jobs.pop(job_id, None)
        if not jobs:
            del self._jobs_of_key[known[0]]
