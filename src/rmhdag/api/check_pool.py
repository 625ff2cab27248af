"""A few processes that check workflows and parameters: a check that takes too long is ended, and delays no other.

A check is given seconds of processor time. One namespace has at most all processes but one, and only a few of its calls
wait for them; who would have to wait longer is told to come back.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import orjson

from rmhdag.api.check_process import HEAD, LENGTH
from rmhdag.api.check_process import check as check_here
from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import charge

# With what the call needs otherwise, an answer within a second.
CPU_SECONDS = 0.6
# For callers that ask for it: the largest workflow takes 3 s.
MOST_CPU_SECONDS = 10.0
# A machine that is busy gives a process less than its time: by then it is ended all the same.
SLOWNESS = 5.0
SLOWNESS_SECONDS = 2.0
START_SECONDS = 30.0
PATIENCE_SECONDS = 1.5
MOST_WAITING = 4
NICENESS = 10
READ_BYTES = 1024 * 1024
# What a process needs to start; it checks what others have written, and has no business with our secrets.
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")


class CheckTooExpensive(Exception):
    """It was ended."""

    def __init__(self, cpu_seconds: float) -> None:
        super().__init__(f"checking it takes more than {cpu_seconds:g} s of processor time")


class Checker:
    """One process. It serves one caller at a time; the first caller waits until it has started."""

    def __init__(self) -> None:
        self._is_ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rmhdag.api.check_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
        )
        # Before it loads anything: callers of expensive checks wait for them, and other callers must not wait; and the
        # start of a successor takes no more of the processor than a check beside it.
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)

    def check(self, kind: bytes, cpu_seconds: float, parts: tuple[bytes, bytes, bytes]) -> Any:
        assert self._process.stdin is not None
        try:
            if not self._is_ready:
                self._is_ready = bool(self._receive(time.monotonic() + START_SECONDS))
            self._process.stdin.write(HEAD.pack(kind, cpu_seconds, *map(len, parts)))
            for part in parts:
                self._process.stdin.write(part)
            self._process.stdin.flush()
            return orjson.loads(self._receive(time.monotonic() + cpu_seconds * SLOWNESS + SLOWNESS_SECONDS))
        except (BrokenPipeError, EOFError):
            raise self._death(cpu_seconds) from None

    def _receive(self, deadline: float) -> bytes:
        target, received = LENGTH.size, bytearray()
        while len(received) < target:
            received += self._read(deadline)
            if target == LENGTH.size and len(received) >= target:
                size_bytes, seconds = LENGTH.unpack_from(received)
                target += size_bytes
                charge(seconds)
        return bytes(received[LENGTH.size :])

    def _read(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            self.end()
            raise busy()
        data = os.read(descriptor, READ_BYTES)
        if not data:
            raise EOFError
        return data

    def _death(self, cpu_seconds: float) -> Exception:
        code = self._process.wait()
        if code == -signal.SIGPROF:
            charge(cpu_seconds)
            return CheckTooExpensive(cpu_seconds)
        return RuntimeError(f"the process that checks ended with exit code {code}")

    def end(self) -> None:
        """It has nothing that could be lost."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


class CheckPool:
    """Processes start when they are first needed, stay, and are replaced when they were ended."""

    def __init__(self, size: int | None) -> None:
        """Without processes what is asked is checked here and now, however long it takes."""
        self._is_inline = size is None
        self._size = size or 0
        self._share = max(1, self._size - 1)
        self._changed = threading.Condition()
        self._idle: list[Checker] = []
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._is_closed = False

    def warm(self) -> None:
        """Start all processes before anybody waits for one."""
        with self._changed:
            self._idle += [Checker() for _ in range(self._size - len(self._idle) - self._busy.total())]

    def check(self, namespace: str, kind: bytes, *parts: bytes, cpu_seconds: float = CPU_SECONDS) -> Any:
        """The answer of `check_process`. Raises CheckTooExpensive, or a Problem if there is too much to check."""
        if self._is_inline:
            return orjson.loads(check_here(kind, parts))
        first, second, third = parts
        with self._turn(namespace) as checker:
            return checker.check(kind, cpu_seconds, (first, second, third))

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for checker in idle:
            checker.end()

    @contextmanager
    def _turn(self, namespace: str) -> Iterator[Checker]:
        checker, is_well = self._take(namespace), False
        try:
            yield checker
            is_well = True
        finally:
            self._give_back(namespace, checker, is_well)

    def _give_back(self, namespace: str, checker: Checker, is_well: bool) -> None:
        """One that was ended has a successor, which starts while nobody waits for it."""
        with self._changed:
            self._busy[namespace] -= 1
            self._busy += Counter()  # forgets those that have none
            if not self._is_closed and is_well:
                self._idle.append(checker)
            elif not self._is_closed:
                self._idle.insert(0, Checker())  # given out after those that are ready
            is_kept = is_well and not self._is_closed
            self._changed.notify_all()
        if not is_kept:
            checker.end()

    def _take(self, namespace: str) -> Checker:
        with self._changed:
            if self._waiting[namespace] >= MOST_WAITING:
                raise busy()
            self._waiting[namespace] += 1
            try:
                if not self._changed.wait_for(lambda: self._has_room(namespace), PATIENCE_SECONDS):
                    raise busy()
            finally:
                self._waiting[namespace] -= 1
                self._waiting += Counter()
            checker = self._idle.pop() if self._idle else Checker()
            self._busy[namespace] += 1
            return checker

    def _has_room(self, namespace: str) -> bool:
        return self._busy.total() < self._size and self._busy[namespace] < self._share


def busy() -> Problem:
    return Problem(
        429,
        "checks_busy",
        "too many checks of workflows and parameters of this namespace are under way",
        remedy="Try again in 1 s, with fewer calls at once.",
        headers={"Retry-After": "1"},
    )
