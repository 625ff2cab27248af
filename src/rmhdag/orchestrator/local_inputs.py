"""Inputs that have no inbox row: starts, answers of fan-ins, chunks to continue, due timers.

Each is held once, whatever number of times it is given, and what a line holds is bounded: starts by the jobs that are
owned, answers by the requests under way, timers by the room that the duty asks for. Lines take turns, and so do the
namespaces and jobs in a line: thousands of timers that are due together delay neither a new job nor each other's jobs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import NamedTuple

from rmhdag.engine.inputs import Input, SetWindow, Start, TimerDue
from rmhdag.orchestrator.shares import JobLine, one_namespace

MOST_TIMERS = 2_000


class LocalInput(NamedTuple):
    """After a crash it is made again, because the rows show that it is owed."""

    job_id: str
    given: Input

    @property
    def key(self) -> Hashable:
        """Two inputs with the same key say the same; of windows the newest counts."""
        value = self.given
        if isinstance(value, TimerDue):
            return TimerDue, value.node_id, value.attempt, value.timer
        if isinstance(value, SetWindow):
            return SetWindow, value.queue
        return type(value), getattr(value, "node_id", None), getattr(value, "attempt", None)


class _Line:
    """The inputs of one kind, job after job."""

    def __init__(self, namespace_of: Callable[[str], str]) -> None:
        self._jobs: JobLine[OrderedDict[Hashable, LocalInput]] = JobLine(namespace_of, OrderedDict)
        self.length = 0

    def add(self, item: LocalInput) -> None:
        inputs = self._jobs.of(item.job_id)
        self.length += item.key not in inputs
        inputs[item.key] = item

    def take(self, limit: int) -> list[LocalInput]:
        """Up to `limit`, a share of each namespace and job; those served are last in the next round."""
        inputs = self._jobs.take(limit, _take_first)
        self.length -= len(inputs)
        return inputs

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs


def _take_first(_: str, inputs: OrderedDict[Hashable, LocalInput], share: int) -> list[LocalInput]:
    return [inputs.popitem(last=False)[1] for _ in range(min(share, len(inputs)))]


class LocalInputs:
    """Safe to give to from any thread; one thread takes."""

    def __init__(self, namespace_of: Callable[[str], str] = one_namespace) -> None:
        self._lock = threading.Lock()
        self._starts, self._answers, self._timers = _Line(namespace_of), _Line(namespace_of), _Line(namespace_of)

    def __len__(self) -> int:
        return self._starts.length + self._answers.length + self._timers.length

    def give(self, items: Collection[LocalInput]) -> None:
        with self._lock:
            for item in items:
                self._line_of(item).add(item)

    def take(self, limit: int) -> list[LocalInput]:
        """At most `limit`: a third for each line, and what one does not need for the others."""
        if not len(self):
            return []
        with self._lock:
            lines = sorted((self._starts, self._answers, self._timers), key=lambda line: line.length)
            inputs: list[LocalInput] = []
            for place, line in enumerate(lines):
                if line.length:
                    inputs += line.take((limit - len(inputs)) // (len(lines) - place))
            return inputs

    def holds_start_of(self, job_id: str) -> bool:
        with self._lock:
            return job_id in self._starts

    @property
    def room_for_timers(self) -> int:
        return max(0, MOST_TIMERS - self._timers.length)

    def lengths(self) -> dict[str, int]:
        return {"starts": self._starts.length, "answers": self._answers.length, "timers": self._timers.length}

    def _line_of(self, item: LocalInput) -> _Line:
        if isinstance(item.given, Start):
            return self._starts
        return self._timers if isinstance(item.given, TimerDue) else self._answers
