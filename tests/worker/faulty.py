"""A worker in which one step fails with an error that nobody expects: run as a program, for tests of containment.

Real objects stand behind; a proxy passes everything on and raises at the calls that it was given.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from rmhdag.observability import supervision
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import choose_transport
from rmhdag.worker.worker import Worker


class UnexpectedError(Exception):
    """Of a kind that no code of ours catches by name."""


class Faults:
    """Which calls fail: by name, from the nth on, so many times. One count for all lives of a worker."""

    def __init__(self, method: str, first: int, times: int, hangs: bool) -> None:
        self._hangs = hangs
        self._method = method
        self._first = first
        self._left = times
        self._calls = 0

    def strike(self, method: str) -> None:
        if method != self._method:
            return
        self._calls += 1
        if self._calls >= self._first and self._left > 0:
            self._left -= 1
            print(f"FAULT {method} {self._calls}", file=sys.stderr, flush=True)
            if self._hangs:
                threading.Event().wait()
            raise UnexpectedError(f"{method}, call {self._calls}")


class Faulty:
    """Passes everything on to the real object, and raises before or after the call that is to fail."""

    def __init__(self, real: Any, faults: Faults, after: bool) -> None:
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "_faults", faults)
        object.__setattr__(self, "_after", after)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found) or name == "on_call":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._after:
                self._faults.strike(name)
            answer = found(*args, **kwargs)
            if self._after:
                # What a call has done stands, and its answer is lost.
                answer = list(answer) if name in ("claim", "save_checkpoints") else answer
                self._faults.strike(name)
            return Faulty(answer, self._faults, self._after) if name == "pulse" else answer

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    given = json.loads(sys.argv[1])
    fault = json.loads(sys.argv[2])
    if "most_restarts" in fault:
        supervision.MOST_RESTARTS = fault["most_restarts"]
    for name in ("queues", "handler_modules"):
        given[name] = tuple(given[name])
    given["scratch_root"] = Path(given["scratch_root"])
    faults = Faults(fault["method"], fault.get("first", 1), fault.get("times", 1), fault.get("hangs", False))
    after = fault.get("after", False)
    worker = Worker(WorkerSettings(**given), lambda settings: Faulty(choose_transport(settings), faults, after))
    if fault.get("part") is not None:
        # A part of the supervisor's own: `crew.placement`, `watch`, `strays`.
        *above, last = fault["part"].split(".")
        holder: Any = worker
        for name in above:
            holder = getattr(holder, f"_{name}")
        name = last if above else f"_{last}"
        setattr(holder, name, Faulty(getattr(holder, name), faults, after))
    worker.run()


if __name__ == "__main__":
    main()
