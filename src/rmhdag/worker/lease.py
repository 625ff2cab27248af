"""A task that this worker holds, from its claim until it is reported or released."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmhdag.handlers.contract import StopReason
from rmhdag.models.leases import ClaimedTask, LogChunk, TaskProgress, percent_of
from rmhdag.models.limits import LOG_CHUNK_BYTES, MESSAGE_CHARACTERS, TASK_LOG_BYTES
from rmhdag.observability.secrets import hide, mask_and_cut, mask_text
from rmhdag.worker.printed import PrintedLines

if TYPE_CHECKING:
    from rmhdag.worker.child_process import ChildProcess

# The limit of the column; the largest progress of a handler is rounded up by one on the board.
LARGEST = 2**63 - 1
CHUNK_BYTES = LOG_CHUNK_BYTES
LOG_BYTES = TASK_LOG_BYTES


@dataclass(slots=True, eq=False)
class Lease:
    """`key` is the task's number in this process; keys grow in the order in which tasks are sent to children."""

    task: ClaimedTask
    waits_since: float = field(default_factory=time.monotonic)
    key: int = 0
    child: ChildProcess | None = None
    began_ns: int = 0
    is_start_asked: bool = False
    start_asked_at: float = 0.0
    # How often this worker has failed to hand it to a child.
    troubles: int = 0
    is_start_marked: bool = False
    was_with_the_dead: bool = False
    told: StopReason | None = None
    told_at: float = 0.0
    is_interrupted: bool = False
    log: TaskLog | None = None
    progress: TaskProgress | None = None
    # Id of the span that the handler runs in.
    trace_parent: str | None = None
    has_shown_progress: bool = False
    # Forms of its secret inputs.
    secrets: tuple[str, ...] = ()
    output: PrintedLines | None = None

    @property
    def pair(self) -> tuple[str, int]:
        return self.task.task_id, self.task.lease_epoch

    @property
    def ids(self) -> dict[str, str | int]:
        """The fields that identify the task in a log line."""
        task = self.task
        return {
            "job_id": task.job_id,
            "node_id": task.node_id,
            "task_id": task.task_id,
            "handler": task.handler,
            "attempt": task.attempt,
            "lease_epoch": task.lease_epoch,
        }

    @property
    def must_mark_start_first(self) -> bool:
        """The task was leased before. If it kills its worker, the loss must count, or this would repeat forever."""
        return not self.is_start_marked and (self.task.lease_losses > 0 or self.task.lease_epoch > 1)

    @property
    def needs_whole_worker(self) -> bool:
        """Two workers were lost while the task ran, so it runs alone: other tasks would be lost with the next one."""
        return self.task.lease_losses > 1

    @property
    def runs_alone(self) -> bool:
        return self.was_with_the_dead or self.must_mark_start_first

    def write_log(self, text: str, is_last: bool = False) -> None:
        if self.log is None:
            self.log = TaskLog(self.task)
        self.log.write(text, is_last)

    def write_output(self, text: str, *, is_end: bool = False) -> None:
        """What was written past Python, by whole lines."""
        if self.output is None:
            self.output = PrintedLines(self.secrets)
        whole = self.output.add(text) + (self.output.rest() if is_end else "")
        if whole:
            self.write_log(mask_text(hide(whole, self.secrets)))

    def note_progress(self, current: float, total: float | None, message: str | None) -> None:
        whole = None if total is None else min(round(total), LARGEST)
        text = None if message is None else mask_and_cut(hide(message, self.secrets), MESSAGE_CHARACTERS)
        self.progress = TaskProgress(*self.pair, min(round(current), LARGEST), whole, percent_of(current, total), text)


@dataclass(slots=True)
class TaskLog:
    """Log text in chunks that fit a row, up to the limit per task."""

    task: ClaimedTask
    _texts: list[str] = field(default_factory=list)
    _written: int = 0
    _chunks: int = 0
    _truncated: bool = False

    def write(self, text: str, is_last: bool = False) -> None:
        if self._truncated or not text:
            return
        data = text.encode()
        if is_last or self._written + len(data) > LOG_BYTES:
            text = data[: LOG_BYTES - self._written].decode(errors="ignore")
            self._truncated = True
        self._written += len(data)
        self._texts.append(text)

    def take_chunks(self) -> list[LogChunk]:
        if not self._texts:
            return []
        data = "".join(self._texts).encode()
        self._texts.clear()
        chunks = []
        while data:
            text = data[:CHUNK_BYTES].decode(errors="ignore")
            data = data[len(text.encode()) :]
            lines = text.count("\n") + (not text.endswith("\n"))
            truncated = self._truncated and not data
            task = self.task
            place = (task.task_id, task.lease_epoch, self._chunks, task.job_id, task.node_id, task.namespace)
            chunks.append(LogChunk(*place, lines, truncated, text))
            self._chunks += 1
        return chunks
