"""A child as the parent sees it: start it, send tasks, read frames, measure memory, kill it, collect its exit."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import orjson

from rmhdag.handlers.contract import StopReason
from rmhdag.machine.python import python_command
from rmhdag.models.leases import ClaimedTask
from rmhdag.worker.board import Begun, Board, Shown
from rmhdag.worker.frames import RECEIVE_BYTES, Frame, FrameReader, TaskFrame, encode
from rmhdag.worker.lease import Lease
from rmhdag.worker.settings import EXAMPLES, POSTGIS_VARIABLE, WorkerSettings
from rmhdag.worker.task_environment import task_environment
from rmhdag.worker.trust import TrustPage, silence_seconds

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The reason of a child that was killed for its memory use begins with this.
OUT_OF_MEMORY = "out of memory"


class ChildKind(StrEnum):
    ALONE = "alone"
    SHARED = "shared"


class Ending(NamedTuple):
    exit_code: int
    peak_mb: int

    def cause(self, killed_for: str | None) -> str:
        """Why the worker killed it, if that ended it: it may have died by itself a moment before."""
        return killed_for if killed_for is not None and self.exit_code == -signal.SIGKILL else self.describe()

    def describe(self) -> str:
        """For people: `the process that ran the task was killed by SIGSEGV (peak memory 41 MB)`."""
        how = f"ended with exit code {self.exit_code}"
        if self.exit_code < 0:
            number = -self.exit_code
            has_name = number in set(signal.Signals)
            how = f"was killed by {signal.Signals(number).name if has_name else f'signal {number}'}"
            if number == signal.SIGKILL:
                how += ", perhaps because the machine was out of memory"
        return f"the process that ran the task {how} (peak memory {self.peak_mb} MB)"


def task_frame(task: ClaimedTask, key: int, trace_parent: str | None, secrets: Sequence[str] = ()) -> TaskFrame:
    """By position, because every task needs one (see orchestrator/batch.py); a test compares the order."""
    return TaskFrame(
        "task",
        key,
        task.handler,
        task.task_id,
        task.job_id,
        task.node_id,
        task.attempt,
        task.lease_epoch,
        task.timeout_seconds,
        task.namespace,
        trace_parent,
        task.checkpoint_phase,
        task.checkpoint_data,
        task.params,
        list(secrets),
    )


class ChildProcess:
    """`leases` are the tasks that were sent to it and have not ended, oldest first; a child alone runs the first."""

    def __init__(self, kind: ChildKind, settings: WorkerSettings, scratch: Path, trust: TrustPage) -> None:
        self.kind = kind
        self.leases: dict[int, Lease] = {}
        self.is_ready = False
        self.is_slow = False
        self.is_killed = False
        self.is_deaf = False
        self.deaf_since = 0.0
        self.is_mute = False
        self.reserved_for: Lease | None = None
        self.started_at = time.monotonic()
        self.heard_at = self.started_at
        self.tasks_done = 0
        self.death: str | None = None
        self.last_words = ""
        self.waits_to_write = False
        self.taking_back_since: float | None = None
        self.taken_back_up_to = 0
        self._last_key = 0
        self._seen = 0
        self._out: deque[memoryview] = deque()
        self._reader = FrameReader()
        self._board = Board.create()
        ours, theirs = socket.socketpair()
        output_read, output_write = os.pipe()
        start = [
            theirs.fileno(),
            self._board.descriptor,
            trust.descriptor,
            silence_seconds(settings.heartbeat_seconds),
            settings.abandoned_seconds,
            os.getpid(),
            str(scratch),
            [*([EXAMPLES] if settings.examples else []), *settings.handler_modules],
            settings.memory_limit_mb,
            kind is ChildKind.SHARED,
            settings.traces.is_wanted,
            settings.warm and kind is ChildKind.ALONE,
        ]
        try:
            self.process = subprocess.Popen(
                python_command("rmhdag.worker", orjson.dumps(start).decode()),
                stdin=subprocess.DEVNULL,
                stdout=output_write,
                stderr=output_write,
                pass_fds=[theirs.fileno(), self._board.descriptor, trust.descriptor],
                start_new_session=True,
                umask=settings.task_umask,
                env={
                    **task_environment(os.environ, settings.task_variables),
                    **settings.traces.as_variables(),
                    **settings.storage.as_variables(),
                    **settings.rasters.as_variables(),
                    **settings.vectors.as_variables(),
                    **({} if settings.postgis_dsn is None else {POSTGIS_VARIABLE: settings.postgis_dsn}),
                    **({} if settings.mount_folder is None else {"RMHDAG_MOUNT": str(settings.mount_folder)}),
                    "PYTHONUNBUFFERED": "1",
                    "TMPDIR": str(scratch),
                },
            )
        except OSError:
            ours.close()
            os.close(output_read)
            self._board.close()
            raise
        finally:
            theirs.close()
            os.close(output_write)
        ours.setblocking(False)
        os.set_blocking(output_read, False)
        self.socket = ours
        self.output = output_read

    @property
    def takes_tasks(self) -> bool:
        return (
            self.kind is ChildKind.ALONE
            and self.is_ready
            and not self.is_killed
            and not (self.is_slow and self.leases)
            and self.reserved_for is None
            and self.taking_back_since is None
        )

    @property
    def has_output(self) -> bool:
        return bool(self._out) and not self.waits_to_write

    def send_task(self, lease: Lease, key: int) -> None:
        data = encode(*task_frame(lease.task, key, lease.trace_parent, lease.secrets))
        # Only now: a task that cannot be encoded never reaches the child.
        lease.key, lease.child, lease.began_ns = key, self, 0
        self.leases[key] = lease
        self._last_key = key
        self._queue(data)

    def send_saved(self, key: int, refusal: str | None) -> None:
        self._queue(encode("saved", key, refusal))

    def tell_to_stop(self, lease: Lease, reason: StopReason) -> None:
        if self.kind is ChildKind.SHARED:
            self._queue(encode("stop", lease.key, reason))
        else:
            self._board.tell(lease.key, reason)

    def interrupt(self, lease: Lease) -> None:
        if self.kind is ChildKind.SHARED:
            self._queue(encode("interrupt", lease.key))
        else:
            self._signal(signal.SIGTERM)

    def begun(self) -> Begun:
        return self._board.begun()

    def shown(self, lease: Lease) -> Shown | None:
        """The task's progress on the board, if it is new. Tasks that share a child send theirs as frames."""
        progress = self._board.shown(lease.key) if self.kind is ChildKind.ALONE else None
        if progress is None or progress.number == self._seen:
            return None
        self._seen = progress.number
        return progress

    def begin_taking_back(self, now: float) -> None:
        """Take back all tasks that have not begun; which these are is certain only a moment later."""
        begun = self._board.begun()
        self._board.take_back(begun.key + 1, self._last_key)
        self.taken_back_up_to = self._last_key
        self.taking_back_since = now

    def hang_up(self) -> None:
        """The child ends by itself after it has sent its remaining spans."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, but no longer than this."""
        if self.process.returncode is None:
            ending = os.pidfd_open(self.process.pid)
            try:
                select.select([ending], [], [], max(0.0, seconds))
            finally:
                os.close(ending)

    def kill(self, why: str | None = None) -> None:
        """Kill it with all processes that it has started: it leads its own process group."""
        self.death = self.death or why
        self.is_killed = True
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def _queue(self, data: bytes) -> None:
        self._out.append(memoryview(data))

    def flush(self) -> bool:
        """Send as much as the socket accepts; True if something remains."""
        while self._out:
            batch = self._out
            try:
                if len(batch) > 1:
                    sent_bytes = self.socket.sendmsg([batch[i] for i in range(min(len(batch), 256))])
                else:
                    sent_bytes = self.socket.send(batch[0])
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                self._out.clear()
                return False
            while sent_bytes:
                first = self._out[0]
                if sent_bytes >= len(first):
                    sent_bytes -= len(first)
                    self._out.popleft()
                else:
                    self._out[0] = first[sent_bytes:]
                    sent_bytes = 0
        return False

    def receive(self) -> list[Frame] | None:
        """Frames that the child has sent; None at the end."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        if not data:
            return None
        self.heard_at = time.monotonic()
        return self._reader.feed(data)

    def read_output(self) -> str | None:
        """Output that C libraries and crashes wrote without Python; None at the end."""
        try:
            data = os.read(self.output, RECEIVE_BYTES)
        except BlockingIOError:
            return ""
        return data.decode(errors="replace").replace("\0", "�") if data else None

    def resident_bytes(self) -> int:
        return resident_bytes_of(self.process.pid)

    def reap(self, *, wait: bool = False) -> Ending | None:
        """How it ended, if it has. The processes that it started are killed too."""
        if self.process.returncode is not None:
            return None
        if not wait:
            state = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if state is None:
                return None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Ending(self.process.returncode, usage.ru_maxrss // 1024)

    def close(self) -> None:
        self.socket.close()
        os.close(self.output)
        self._board.close()


def resident_bytes_of(process_id: int) -> int:
    """Memory that a process uses now; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process_id}/statm").read_bytes().split()
        return int(fields[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
