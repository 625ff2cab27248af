"""The process that runs handlers. It talks only to its parent: it has no database and no queue.

`rmhdag.worker.alone` runs one task after another, `rmhdag.worker.shared` runs light tasks concurrently.
"""

from __future__ import annotations

import contextvars
import ctypes
import faulthandler
import io
import logging
import os
import resource
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from rmhdag.handlers.artifacts import artifact_hash
from rmhdag.handlers.contract import LOG_FORMAT, Checkpoint, HandlerContext, Link, StopReason
from rmhdag.handlers.raster_limits import is_news
from rmhdag.handlers.registry import RegistrationError, Registry, load_handlers
from rmhdag.handlers.running import Outcome, clean_text
from rmhdag.models.limits import MESSAGE_CHARACTERS, TASK_LOG_BYTES
from rmhdag.observability import traces
from rmhdag.observability.secrets import hide, known_secrets, mask_and_cut, mask_text
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.worker.frames import RECEIVE_BYTES, DoneFrame, Frame, FrameReader, TaskFrame, encode
from rmhdag.worker.printed import PrintedLines
from rmhdag.worker.settings import POSTGIS_VARIABLE
from rmhdag.worker.trust import LeaseGuard, TrustPage

if TYPE_CHECKING:
    from rmhdag.postgis.database import DataDatabase

LOG_BYTES = TASK_LOG_BYTES
MOST_NAMESPACES_OPEN = 16
PROGRESS_BURST = 20
PROGRESS_PER_SECOND = 5.0
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


class Start(NamedTuple):
    """The options that the parent passes on the command line, as JSON."""

    socket: int
    board: int
    trust: int
    silence_seconds: float
    abandoned_seconds: float
    parent: int
    scratch: str
    modules: list[str]
    memory_limit_mb: int | None
    shared: bool
    traced: bool
    warm: bool


class ParentGone(Exception):
    """The parent is gone, so results cannot be reported."""


class Channel:
    """The socket to the parent. Handlers may use threads, so frames are sent one at a time."""

    def __init__(self, descriptor: int) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self._lock = threading.Lock()
        self._reader = FrameReader()

    def send(self, *frame: Any) -> None:
        data = encode(*frame)
        with self._lock:
            self.socket.sendall(data)

    def receive(self) -> list[Frame]:
        """Wait for frames. Raises ParentGone when the parent closes the socket."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ParentGone
        return self._reader.feed(data)


class TaskLink:
    """The log, progress and checkpoints of a task: the part that all kinds of children share."""

    def __init__(self, channel: Channel, key: int, secrets: Sequence[str] = ()) -> None:
        self.channel = channel
        self.key = key
        self.secrets = tuple(secrets)
        self._printed = PrintedLines(self.secrets)
        self._printing = threading.Lock()
        self._log_left = LOG_BYTES
        self._progress_left = float(PROGRESS_BURST)
        self._progress_at = 0.0
        self._unsaid: tuple[Any, ...] | None = None

    def stop_reason(self) -> StopReason | None:
        """Why the task should stop; None if it should not. Each kind of child learns of it in its own way."""
        return None

    def log(self, text: str) -> None:
        """Whole lines. What was printed before them comes first."""
        self.end_line()
        self._tell(text)

    def _tell(self, text: str) -> None:
        if self._log_left <= 0 or not text:
            return
        # Also in threads of the handler, which know nothing of its context.
        text = mask_text(hide(clean_text(text), self.secrets))
        size = len(text.encode())
        if size > self._log_left:
            text = text.encode()[: self._log_left].decode(errors="ignore")
        self._log_left -= size
        self.channel.send("log", self.key, text, self._log_left <= 0)

    def write(self, text: str) -> None:
        """Printed text, of any thread, in pieces of any size."""
        with self._printing:
            whole = self._printed.add(text)
        self._tell(whole)

    def end_line(self) -> None:
        """Pass on what was printed, although its line has not ended."""
        with self._printing:
            rest = self._printed.rest()
        self._tell(rest)

    def shown_message(self, message: str | None) -> str | None:
        return None if message is None else mask_and_cut(hide(clean_text(message), self.secrets), MESSAGE_CHARACTERS)

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        self._progress_left = min(PROGRESS_BURST, self._progress_left + (now - self._progress_at) * PROGRESS_PER_SECOND)
        self._progress_at = now
        frame = ("progress", self.key, current, total, self.shown_message(message))
        if self._progress_left >= 1:
            self._progress_left -= 1
            self._unsaid = None
            self.channel.send(*frame)
        else:
            self._unsaid = frame

    def say_the_rest(self) -> None:
        """At the end: send the last line and the last progress if they were not sent yet."""
        self.end_line()
        if self._unsaid is not None:
            self.channel.send(*self._unsaid)

    def send_checkpoint(self, phase: str, data: Any) -> None:
        self.channel.send("checkpoint", self.key, phase, orjson.dumps(data).decode(), artifact_hash(data))


@cache
def storage_opener(guard: LeaseGuard) -> Callable[[str], Storage] | None:
    """Opens the blob storage of a namespace on first use; None if no storage is configured."""
    settings = StorageSettings.from_variables(os.environ)

    def before_write() -> None:
        link = running.get()
        guard.wait_until_trusted(lambda: link is not None and link.stop_reason() is not None)

    @lru_cache(MOST_NAMESPACES_OPEN)
    def opened(namespace: str) -> Storage:
        return open_storage(settings, namespace, before_write)

    return opened if settings.is_given else None


def postgis_of(namespace: str) -> DataDatabase:
    """Bound to the namespace of the task's row, as storage is."""
    from rmhdag.postgis.database import DataDatabase

    return DataDatabase(os.environ[POSTGIS_VARIABLE], namespace)


def context_of(task: TaskFrame, link: Link, scratch: str, guard: LeaseGuard) -> HandlerContext[Any]:
    resume = None if task.checkpoint_phase is None else Checkpoint(task.checkpoint_phase, task.checkpoint_data)
    opener = storage_opener(guard)
    return HandlerContext(
        link,
        task.params,
        task_id=task.task_id,
        job_id=task.job_id,
        node_id=task.node_id,
        attempt=task.attempt,
        lease_epoch=task.lease_epoch,
        timeout_seconds=task.timeout_seconds,
        namespace=task.namespace,
        trace_parent=task.trace_parent,
        resume=resume,
        scratch=Path(scratch, f"{task.task_id}.{task.lease_epoch}"),
        # Bound to the namespace of the task's row: no parameter of the task can change it.
        open_storage=None if opener is None else partial(opener, task.namespace),
        open_postgis=partial(postgis_of, task.namespace) if os.environ.get(POSTGIS_VARIABLE) else None,
        check_lease=guard.check,
    )


def send_outcome(channel: Channel, key: int, outcome: Outcome, began_ns: int) -> None:
    frame = DoneFrame(
        name="done",
        key=key,
        error_kind=outcome.error_kind,
        error_message=outcome.error_message,
        began_ns=began_ns,
        took_ns=time.monotonic_ns() - began_ns,
        output=None if outcome.output is None else outcome.output.decode(),
        metrics=outcome.metrics,
        delay_seconds=outcome.delay_seconds,
        stopped=outcome.stopped,
        records=None if outcome.records is None else outcome.records.decode(),
        error=None if outcome.error is None else outcome.error.decode(),
        warnings=None if outcome.warnings is None else outcome.warnings.decode(),
    )
    channel.send(*frame)


def clean_up(ctx: HandlerContext[Any]) -> None:
    if ctx.used_scratch is not None:
        shutil.rmtree(ctx.used_scratch, ignore_errors=True)


NO_SPAN = nullcontext()


def span_of(task: TaskFrame) -> AbstractContextManager[None]:
    """The parent of the handler's own spans."""
    return NO_SPAN if traces.active() is None else traces.inside(task.trace_parent)


running: contextvars.ContextVar[TaskLink | None] = contextvars.ContextVar("running", default=None)


def begin_run(link: TaskLink) -> None:
    """What is printed, logged and raised from now on is this task's."""
    running.set(link)
    known_secrets.set(link.secrets)


def end_run() -> None:
    running.set(None)
    known_secrets.set(())


class TaskStream(io.TextIOBase):
    """Output of print: goes to the log of the task that prints, otherwise to the parent's own output."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def write(self, text: str) -> int:
        link = running.get()
        if link is None:
            self._raw.write(text)
        else:
            link.write(text)
        return len(text)

    def flush(self) -> None:
        link = running.get()
        if link is not None:
            link.end_line()
        self._raw.flush()

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def writable(self) -> bool:
        return True


class _TaskLogHandler(logging.Handler):
    """Log records of libraries while a task runs."""

    def emit(self, record: logging.LogRecord) -> None:
        link = running.get()
        if link is not None:
            link.log(self.format(record) + "\n")


def _settle_in(start: Start) -> None:
    """Die with the parent, be the first process killed when memory is short, and ignore signals for the parent."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # No program that a handler starts can gain privileges, by setuid or capabilities.
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != start.parent:
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable(file=sys.__stderr__ or 2)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    if start.memory_limit_mb is not None:
        # The parent watches memory use; this limit stops growth that is faster than its checks.
        limit = start.memory_limit_mb * 1024 * 1024 * 3 // 2 + 64 * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout = TaskStream(sys.__stdout__)
    sys.stderr = TaskStream(sys.__stderr__)
    handler = _TaskLogHandler()
    handler.setFormatter(LOG_FORMAT)
    handler.addFilter(is_news)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _load(channel: Channel, modules: list[str]) -> Registry:
    try:
        registry = load_handlers(modules, examples=False)
    except RegistrationError as error:
        channel.send("broken", error.message, error.remedy)
        os._exit(3)
    channel.send("ready", registry.manifests())
    return registry


def main() -> None:
    start = Start(*orjson.loads(sys.argv[1]))
    _settle_in(start)
    if start.traced:
        # The parent exports to the same endpoint and reports errors.
        with suppress(traces.ExporterUnusable):
            traces.configure_traces("rmhdag-worker", traces.TraceSettings.from_variables(), quiet=True)
    channel = Channel(start.socket)
    registry = _load(channel, start.modules)
    guard = LeaseGuard(TrustPage(start.trust), start.silence_seconds)
    if start.warm:
        # In parallel with the first tasks: those that do not need the libraries do not wait for them.
        threading.Thread(target=registry.keep_promises, name="imports", daemon=True).start()
    try:
        if start.shared:
            from rmhdag.worker.shared import run_side_by_side

            run_side_by_side(channel, registry, start.scratch, guard, start.abandoned_seconds)
        else:
            from rmhdag.worker.alone import run_one_by_one

            run_one_by_one(channel, registry, start.board, start.scratch, guard, start.abandoned_seconds)
    except (ParentGone, ConnectionError):
        pass
    traces.close_traces()
    # Threads that a handler left running must not keep the process alive.
    os._exit(0)
