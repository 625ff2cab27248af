"""Processes that are started, watched, started again when they die, and ended in order."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from rmhdag.cli.lifeline import EXIT_DRAINED
from rmhdag.machine.log_files import LOG_BYTES, LogKeeper, open_log
from rmhdag.machine.private_files import PRIVATE_FOLDER
from rmhdag.machine.process_ends import describe_end

FIRST_PAUSE_SECONDS = 0.5
MOST_PAUSE_SECONDS = 10.0
# A process that ran for so long is not in a crash loop.
SOUND_SECONDS = 30.0
# After this, the user learns why the stop takes so long.
SLOW_SECONDS = 1.5
TAIL_LINES = 15
ERROR = "error: "


@dataclass(slots=True)
class Supervised:
    name: str
    command: Sequence[str]
    log: Path | None
    # Descriptors that it gets from us, each time that it is started.
    descriptors: Sequence[int] = ()
    # Variables for it alone.
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_at: float | None = None
    deaths: int = 0
    # Somebody asked it to end, and it is not to be started again.
    is_drained: bool = False
    # How long its log was when it was started: what it says itself comes after.
    log_bytes: int = 0

    @property
    def process_id(self) -> int | None:
        return self.process.pid if self.process else None

    def log_tail(self) -> str:
        with suppress(OSError):
            if self.log is None:
                return ""
            return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:])
        return ""

    def last_error(self) -> str:
        """Why it ended, in the words of the command; empty if it said nothing of that kind."""
        with suppress(OSError):
            if self.log is None:
                return ""
            with self.log.open("rb") as log:
                # A log that is shorter than it was has been moved aside meanwhile.
                is_same = os.fstat(log.fileno()).st_size >= self.log_bytes
                log.seek(self.log_bytes if is_same else 0)
                lines = log.read(LOG_BYTES).decode("utf-8", "replace").splitlines()
            place = max((number for number, line in enumerate(lines) if line.startswith(ERROR)), default=None)
            if place is None:
                return ""
            remedy = lines[place + 1].strip() if place + 1 < len(lines) and lines[place + 1].startswith("  ") else ""
            return f"{lines[place].removeprefix(ERROR)}. {remedy}".rstrip(". ")
        return ""


class Supervisor:
    """One thread: it sleeps until a process ends, a signal comes or a restart is due.

    Without `logs` the processes write to our own stderr.
    """

    def __init__(self, logs: Path | None, environment: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self._logs = logs
        self._environment = dict(environment)
        self._tell = tell
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_out, selectors.EVENT_READ, self._take_wake)
        self.processes: dict[str, Supervised] = {}
        self._retiring: list[tuple[subprocess.Popen[bytes], float]] = []
        self.stop_requests = 0
        self._keeper: LogKeeper | None = None
        if logs is not None:
            logs.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._keeper = LogKeeper(
                lambda: [supervised.log for supervised in list(self.processes.values()) if supervised.log is not None]
            )

    def listen(self) -> None:
        """From now on SIGINT, SIGTERM and SIGHUP ask to stop, and are answered at the next turn."""
        signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    @property
    def stopping(self) -> bool:
        return self.stop_requests > 0

    def ask_to_stop(self) -> None:
        """From another thread; a signal does the same."""
        self.stop_requests += 1
        with suppress(BlockingIOError):
            os.write(self._wake_in, b"!")

    def start(
        self,
        name: str,
        command: Sequence[str],
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Supervised:
        log = None if self._logs is None else self._logs / f"{name}.log"
        self.processes[name] = supervised = Supervised(name, command, log, descriptors, environment or {})
        self._spawn(supervised)
        return supervised

    def start_successor(self, name: str) -> Supervised:
        """Another one of the same kind, which counts for nothing until it is to `replace` the one before."""
        before = self.processes[name]
        supervised = Supervised(name, before.command, before.log, before.descriptors, before.environment)
        self._spawn(supervised)
        return supervised

    def replace(self, successor: Supervised, patience_seconds: float) -> None:
        """From now on it is the one that is watched; the one before ends in its own time, or is killed after that."""
        before = self.processes[successor.name]
        self.processes[successor.name] = successor
        if before.process is not None:
            before.process.terminate()
            self._retiring.append((before.process, time.monotonic() + patience_seconds))

    def give_up(self, successor: Supervised) -> None:
        """One that did not get to replace anybody."""
        if successor.process is not None and successor.process.poll() is None:
            successor.process.kill()
            successor.process.wait()

    def end_retiring(self) -> None:
        """Wait for those that were replaced; a request to stop that comes meanwhile is passed on."""
        passed_on = self.stop_requests
        while self._retiring:
            if self.stop_requests > passed_on:
                passed_on = self.stop_requests
                for process, _ in self._retiring:
                    process.terminate()
            self.turn(0.5)

    def watch(self, process_id: int, on_end: Callable[[], None]) -> None:
        """Call when a process that somebody else started, and will reap, has ended."""
        watch = os.pidfd_open(process_id)

        def ended() -> None:
            self._selector.unregister(watch)
            os.close(watch)
            on_end()

        self._selector.register(watch, selectors.EVENT_READ, ended)

    def turn(self, timeout_seconds: float | None = None) -> None:
        """Wait for something to happen, at most so long, and deal with it."""
        due = [supervised.restart_at for supervised in self.processes.values() if supervised.restart_at is not None]
        due += [deadline for _, deadline in self._retiring]
        waits = [moment - time.monotonic() for moment in due] + ([] if timeout_seconds is None else [timeout_seconds])
        for key, _ in self._selector.select(max(0.0, min(waits)) if waits else None):
            key.data()
        for supervised in self.processes.values():
            if supervised.restart_at is not None and time.monotonic() >= supervised.restart_at and not self.stopping:
                self._spawn_again(supervised)
        for process, deadline in self._retiring:
            if time.monotonic() >= deadline:
                process.kill()
        self._retiring = [supervised for supervised in self._retiring if supervised[0].poll() is None]

    def run_to_end(self, command: Sequence[str]) -> int | None:
        """A command in the foreground while the others are looked after; None if we were told to stop meanwhile."""
        process = subprocess.Popen(command, env=self._environment)
        self.watch(process.pid, lambda: None)
        while process.poll() is None:
            if self.stopping:
                process.terminate()
                process.wait()
                return None
            self.turn()
        return process.returncode

    def end(self, name: str, patience_seconds: float) -> None:
        """SIGTERM, then SIGKILL for a process that does not stop; each further request to stop is passed on."""
        supervised = self.processes.pop(name)
        process = supervised.process
        if process is None:
            return
        passed_on = self.stop_requests
        began = time.monotonic()
        deadline = began + patience_seconds
        has_said = False
        process.terminate()
        while process.poll() is None and time.monotonic() < deadline:
            if not has_said and time.monotonic() - began > SLOW_SECONDS:
                has_said = True
                self._tell(
                    f"the {name} is finishing or saving its work, for up to {patience_seconds:g} s; press Ctrl-C "
                    f"again to skip the wait"
                )
            if self.stop_requests > passed_on:
                passed_on = self.stop_requests
                process.terminate()
            self.turn(min(0.5, max(0.0, deadline - time.monotonic())))
        if process.poll() is None:
            process.kill()
        process.wait()

    def close(self) -> None:
        """Nothing is left, whatever happened before."""
        for supervised in self.processes.values():
            if supervised.process is not None and supervised.process.poll() is None:
                supervised.process.kill()
                supervised.process.wait()
        for process, _ in self._retiring:
            process.kill()
            process.wait()
        if self._keeper is not None:
            self._keeper.close()
        with suppress(ValueError):
            signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def _spawn(self, supervised: Supervised) -> None:
        supervised.restart_at = None
        supervised.started_at = time.monotonic()
        with open_output(supervised.log) as log:
            supervised.log_bytes = 0 if supervised.log is None else log.seek(0, os.SEEK_END)
            # A session of its own: Ctrl-C reaches us alone, and we end the others in order.
            supervised.process = subprocess.Popen(
                supervised.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment | dict(supervised.environment),
                start_new_session=True,
                pass_fds=supervised.descriptors,
            )
        self.watch(supervised.process.pid, lambda: self._bury(supervised))

    def _spawn_again(self, supervised: Supervised) -> None:
        """What is missing for a moment, such as memory or the folder of the logs, ends neither us nor the others."""
        try:
            self._spawn(supervised)
        except OSError as error:
            if supervised.process is not None:
                supervised.process.kill()
                supervised.process.wait()
                supervised.process = None
            supervised.deaths += 1
            self._tell(
                f"the {supervised.name} could not be started: {error}; it is tried again in {put_off(supervised):g} s"
            )

    def _bury(self, supervised: Supervised) -> None:
        if (
            supervised.process is None
            or supervised.process.poll() is None
            or self.processes.get(supervised.name) is not supervised
        ):
            return
        code = supervised.process.returncode
        supervised.process = None
        if self.stopping:
            return
        if code == EXIT_DRAINED:
            supervised.is_drained = True
            self._tell(f"the {supervised.name} was drained and stays stopped; restart `rmhdag up` to start it again")
            return
        supervised.deaths = 1 if time.monotonic() - supervised.started_at > SOUND_SECONDS else supervised.deaths + 1
        pause = put_off(supervised)
        how = describe_end(code)
        where = "" if supervised.log is None else f" (log: {supervised.log})"
        cause = supervised.last_error()
        self._tell(
            f"the {supervised.name} {how}{f': {cause}' if cause else ''}; it is started again in {pause:g} s{where}"
        )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop_requests += 1

    def _take_wake(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_out, 4096)


def put_off(supervised: Supervised) -> float:
    """The pause before it is started again: longer with each death in a row."""
    pause = min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(supervised.deaths - 1, 16))
    supervised.restart_at = time.monotonic() + pause
    return pause


def open_output(log: Path | None) -> BinaryIO:
    return os.fdopen(os.dup(sys.stderr.fileno()), "ab") if log is None else open_log(log)
