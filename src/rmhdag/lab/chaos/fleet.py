"""The processes under test: started, killed, frozen, woken and started again; none of them outlives this one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmhdag.lab.bench.process import spawn

START_SECONDS = 10.0


@dataclass(eq=False)
class Member:
    """One seat of the fleet. `process` is the one that runs now; none between a death and the next start."""

    role: str
    number: int
    told: dict[str, Any]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    is_frozen: bool = False
    is_leaving: bool = False
    started_at: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.role}-{self.number}"

    @property
    def is_well(self) -> bool:
        return self.process is not None and not self.is_frozen and not self.is_leaving

    @property
    def is_settled(self) -> bool:
        """Up for so long that it has come to where it takes SIGTERM."""
        return self.is_well and time.monotonic() - self.started_at > START_SECONDS

    def start(self) -> None:
        """Only from the thread that lives as long as the fleet: its end is the end of those it started."""
        if self.process is None:
            self.process = spawn(self.role, self.told, self.log)
            self.started_at = time.monotonic()

    def send(self, number: signal.Signals, *, whole_group: bool) -> None:
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                (os.killpg if whole_group else os.kill)(self.process.pid, number)

    def kill(self) -> None:
        if self.process is not None:
            # A worker's children die with it, by themselves; killing only the parent tests that too.
            self.process.kill()
            self.process.wait()
            self._forget()

    def left_with(self) -> int | None:
        """The exit code of a process that was asked to leave, once it has."""
        code = None if self.process is None else self.process.poll()
        if code is not None:
            self._forget()
        return code

    def unexpected_end(self) -> int | None:
        """A process that ended without being asked to; its exit code, once."""
        return None if self.is_leaving else self.left_with()

    def _forget(self) -> None:
        self.process = None
        self.is_frozen = self.is_leaving = False


class Fleet:
    def __init__(
        self,
        dsn: str,
        schema: str,
        folder: Path,
        queue: str,
        lease_seconds: float,
        sizes: tuple[int, int],
        more: dict[str, Any] | None = None,
    ) -> None:
        """`more` are settings of the orchestrators."""
        beat = lease_seconds / 5
        orchestrator = {
            **(more or {}),
            "dsn": dsn,
            "schema": schema,
            "heartbeat_seconds": beat,
            "ttl_seconds": lease_seconds,
            "margin_seconds": beat,
            "orphan_scan_seconds": min(1.0, beat),
        }
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        worker = {
            "dsn": dsn,
            "schema": schema,
            "queues": [queue],
            "concurrency": 2,
            "heartbeat_seconds": beat,
            "scratch_root": str(scratch),
            "stop_seconds": 10.0,
            "handler_modules": ["rmhdag.lab.chaos.handlers"],
        }
        self.orchestrators = [
            Member("orchestrator", number, orchestrator, folder / f"orchestrator-{number}.log")
            for number in range(sizes[0])
        ]
        self.workers = [Member("worker", number, worker, folder / f"worker-{number}.log") for number in range(sizes[1])]

    @property
    def members(self) -> list[Member]:
        return [*self.orchestrators, *self.workers]

    def start(self) -> None:
        for member in self.members:
            member.start()

    def kill(self) -> None:
        for member in self.members:
            member.kill()
