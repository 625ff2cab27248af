"""Who comes next in a queue: one growing number per task gives every submitter, and every job of a submitter, its turn.

Each job advances its own mark by a step per task, starting from where the queue is now; so a job that has waited long
gains nothing, and one that has just come stands at the front of the next round. A submitter with many jobs takes larger
steps with each, so that submitters share equally; a higher priority takes smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable

STEP = 1_000


class Turns:
    """Marks per (queue, job), in the orchestrator's memory: losing them costs a little fairness, nothing else.

    Where a queue is now, results tell: each brings the number of its task. A queue without results is looked at.
    """

    def __init__(self, first_waiting: Callable[[str, int], int | None]) -> None:
        self._first_waiting = first_waiting
        self._now: dict[str, int] = {}
        self._marks: dict[tuple[str, str], int] = {}
        self._jobs_of_key: dict[str, set[str]] = {}

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
        jobs = self._jobs_of_key.setdefault(fairness_key, set())
        jobs.add(job_id)
        mark = max(self._now[queue], self._marks.get((queue, job_id), 0))
        mark += max(1, STEP * len(jobs) // (priority + 1))
        self._marks[queue, job_id] = mark
        return mark

    def forget(self, job_id: str, fairness_key: str, queues: list[str]) -> None:
        jobs = self._jobs_of_key.get(fairness_key)
        if jobs is not None:
            jobs.discard(job_id)
            if not jobs:
                del self._jobs_of_key[fairness_key]
        for queue in queues:
            self._marks.pop((queue, job_id), None)
