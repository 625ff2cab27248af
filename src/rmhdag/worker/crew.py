"""The tasks of a worker: what children report about them, how they end, and what happens when a child dies."""

from __future__ import annotations

import logging
import selectors
import time
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from rmhdag.handlers.contract import StopReason
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import HandlerError
from rmhdag.models.leases import CheckpointToSave, ClaimedTask, Pair, ReturnedLease, ReturnReason
from rmhdag.models.limits import MESSAGE_CHARACTERS
from rmhdag.models.states import TaskStatus
from rmhdag.observability import traces
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.worker.child_process import OUT_OF_MEMORY, ChildKind, ChildProcess, Ending
from rmhdag.worker.exchange import Exchange
from rmhdag.worker.frames import DoneFrame, Frame, FrameError
from rmhdag.worker.lease import Lease
from rmhdag.worker.placement import Placement
from rmhdag.worker.reports import Finished
from rmhdag.worker.scratch import Scratch
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.staff import Staff
from rmhdag.worker.task_spans import TaskSpans
from rmhdag.worker.transport import handler_names
from rmhdag.worker.trust import TrustPage

log = get_logger(__name__)
MOST_TROUBLES = 3
# How long a task that this worker cannot run is left to other workers.
NO_HANDLER_SECONDS = 5.0


class HandlersBrokenError(Exception):
    """The modules with handlers cannot be loaded, so no child will ever be ready."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}. {remedy}" if remedy else message)
        self.message = message
        self.remedy = remedy


class Crew:
    def __init__(
        self,
        settings: WorkerSettings,
        exchange: Exchange,
        scratch: Scratch,
        trust: TrustPage,
        selector: selectors.BaseSelector,
        on_ready: Callable[[list[dict[str, Any]]], None],
    ) -> None:
        self.staff = Staff(settings, scratch, trust, selector, self.listen_to, self._read_output)
        self.placement = Placement(settings, self.staff, self.mark_start, self._is_alone, self._note_trouble)
        self.by_pair: dict[Pair, Lease] = {}
        self.tasks_done = 0
        self.is_stopping = False
        self._exchange = exchange
        self._scratch = scratch
        self._on_ready = on_ready
        self._handlers: frozenset[str] = frozenset()
        tracing = traces.active()
        self._spans = None if tracing is None else TaskSpans(tracing)

    # Tasks come.

    def take(self, tasks: Iterable[ClaimedTask]) -> None:
        """A task that cannot be accepted is released, so that the others are not lost with it."""
        for task in tasks:
            lease = Lease(task, secrets=self._exchange.secrets_of(task.task_id))
            try:
                self._take_one(lease)
            except Exception as error:
                log.exception("task_not_taken", error=type(error).__name__, **lease.ids)
                self.placement.withdraw(lease)
                self.by_pair.pop(lease.pair, None)
                self._exchange.release(ReturnedLease(*lease.pair))

    def _take_one(self, lease: Lease) -> None:
        task = lease.task
        lease.trace_parent = task.trace_parent if self._spans is None else self._spans.announce(task)
        self.by_pair[lease.pair] = lease
        if self.is_stopping:
            self._give_back(lease)
        elif task.handler not in self._handlers:
            # Claims name the handlers, but an older API ignores them. Another worker may have this one.
            log.warning("task_of_another_handler", remedy="it is released", **lease.ids)
            self._release(lease, NO_HANDLER_SECONDS, ReturnReason.NO_HANDLER)
        else:
            self.placement.add(lease)

    def find_again(self) -> None:
        """After an unexpected error: tasks that wait nowhere wait for a child again."""
        placed = {id(lease) for child in self.staff.children for lease in (*child.leases.values(), child.reserved_for)}
        placed.update(map(id, self.placement.waiting()))
        for lease in list(self.by_pair.values()):
            if id(lease) not in placed:
                self._put_back(lease)

    def _note_trouble(self, lease: Lease, error: Exception) -> None:
        """The task could not be handed to a child. It is tried again; after several failures the task fails."""
        lease.troubles += 1
        if lease.troubles < MOST_TROUBLES:
            self._put_back(lease)
        else:
            cause = f"{type(error).__name__}: {error}"
            message = mask_and_cut(f"the worker could not hand the task to a process: {cause}", MESSAGE_CHARACTERS)
            self._finish(lease, TaskStatus.FAILED, ErrorKind.HANDLER_ERROR, message)

    def refuse(self, task: ClaimedTask, why: str) -> None:
        self._finish(Lease(task), TaskStatus.FAILED, ErrorKind.NON_RETRYABLE, why)

    def _is_alone(self, lease: Lease) -> bool:
        """The worker has no other task, and no unsent result that could be lost with it."""
        return len(self.by_pair) == 1 and lease.pair in self.by_pair and self._exchange.has_told_all

    def starts_were_marked(self, pairs: Iterable[Pair], matched: set[str]) -> None:
        for pair in pairs:
            lease = self.by_pair.get(pair)
            if lease is None:
                continue
            lease.is_start_marked = True
            if pair[0] not in matched:
                self.drop(lease)

    def mark_start(self, lease: Lease) -> None:
        lease.is_start_asked, lease.start_asked_at = True, time.monotonic()
        self._exchange.mark_start(lease.pair)

    # Frames from children.

    def listen_to(self, child: ChildProcess) -> bool:
        """Handle the frames of a child; False if there were none."""
        self.staff.flush_what_waits(child)
        try:
            frames = child.receive()
        except FrameError as error:
            child.kill(f"the process that ran the task broke the protocol: {error}")
            return False
        if frames is None:
            self.staff.become_deaf(child)
            return False
        # Before the task is done, so that output without Python is still assigned to it.
        self._read_output(child)
        for frame in frames:
            _HEAR[frame[0]](self, child, frame)
        return bool(frames)

    def _read_output(self, child: ChildProcess) -> bool:
        text = child.read_output()
        if text is None:
            self.staff.become_mute(child)
        elif text:
            lease = next(iter(child.leases.values()), None) if child.kind is ChildKind.ALONE else None
            if lease is not None:
                lease.write_output(text)
            else:
                child.last_words = (child.last_words + text)[-4000:]
        return bool(text)

    def _hear_ready(self, child: ChildProcess, frame: Frame) -> None:
        manifests = frame[1]
        child.is_ready = True
        self._handlers = handler_names(manifests)
        self.placement.light_handlers = handler_names([manifest for manifest in manifests if manifest["light"]])
        self._on_ready(manifests)

    def _hear_broken(self, child: ChildProcess, frame: Frame) -> None:
        if not self._handlers:
            raise HandlersBrokenError(*frame[1:])
        # The code changed after this worker had loaded it: children with the old code go on and take over the tasks
        # of this child.
        log.error("handlers_changed_and_broken", error=frame[1], remedy="correct them, or start the worker again")

    def _hear_done(self, child: ChildProcess, frame: Frame) -> None:
        done = DoneFrame._make(frame)
        lease = child.leases.pop(done.key, None)
        if lease is None:
            return
        child.tasks_done += 1
        lease.began_ns = done.began_ns
        self.placement.learn(done.took_ns / 1e9)
        if done.stopped:
            self._stopped(lease, done.delay_seconds)
        elif done.delay_seconds is not None:
            self._release(lease, done.delay_seconds)
        elif done.error_kind is not None:
            self._finish(
                lease,
                TaskStatus.FAILED,
                ErrorKind(done.error_kind),
                done.error_message,
                done.took_ns // 1_000_000,
                metrics=done.metrics,
                error=_as_bytes(done.error),
                warnings=_as_bytes(done.warnings),
            )
        else:
            self._finish(
                lease,
                TaskStatus.COMPLETED,
                took_ms=done.took_ns // 1_000_000,
                output=_as_bytes(done.output),
                metrics=done.metrics,
                records=_as_bytes(done.records),
                warnings=_as_bytes(done.warnings),
            )

    def _hear_skipped(self, child: ChildProcess, frame: Frame) -> None:
        lease = child.leases.pop(frame[1], None)
        if lease is not None:
            self._put_back(lease)

    def _hear_log(self, child: ChildProcess, frame: Frame) -> None:
        lease = child.leases.get(frame[1])
        if lease is not None:
            lease.write_log(frame[2], frame[3])

    def _hear_progress(self, child: ChildProcess, frame: Frame) -> None:
        _, key, current, total, message = frame
        lease = child.leases.get(key)
        if lease is not None:
            lease.note_progress(current, total, message)

    def look_at_progress(self, child: ChildProcess, lease: Lease) -> None:
        """Read the board, in case it shows new progress."""
        progress = child.shown(lease)
        if progress is not None:
            lease.note_progress(progress.current, progress.total, progress.message)

    def _hear_checkpoint(self, child: ChildProcess, frame: Frame) -> None:
        _, key, phase, data, artifact_hash = frame
        lease = child.leases.get(key)
        if lease is not None:
            self._exchange.save_checkpoint(CheckpointToSave(*lease.pair, phase, data.encode(), artifact_hash))

    def checkpoint_was_saved(self, pair: Pair, refusal: str | None) -> None:
        lease = self.by_pair.get(pair)
        if lease is not None and lease.child is not None:
            lease.child.send_saved(lease.key, refusal)

    # Tasks go.

    def tell_to_stop(self, lease: Lease, reason: StopReason, now: float) -> None:
        """Ask a running task to stop; one that waits for a child is cancelled or released at once."""
        if lease.child is None:
            if reason is StopReason.CANCELLED:
                self.placement.withdraw(lease)
                self._finish(lease, TaskStatus.CANCELLED)
            elif reason is StopReason.STOPPING:
                self.placement.withdraw(lease)
                self._give_back(lease)
        elif lease.told is None or reason is not StopReason.STOPPING:
            lease.told, lease.told_at = reason, now
            if lease.child.kind is ChildKind.SHARED or lease.child.begun().key == lease.key:
                lease.child.tell_to_stop(lease, reason)
            else:
                lease.child.begin_taking_back(now)

    def _stopped(self, lease: Lease, delay_seconds: float | None) -> None:
        """The task ended because it was asked to stop, or was killed because it did not."""
        took_ms = (time.monotonic_ns() - lease.began_ns) // 1_000_000
        if lease.told is StopReason.TIMEOUT:
            message = f"it ran longer than its {lease.task.timeout_seconds} s and was stopped"
            self._finish(lease, TaskStatus.FAILED, ErrorKind.TIMEOUT, message, took_ms)
        elif lease.told is StopReason.CANCELLED:
            self._finish(lease, TaskStatus.CANCELLED, None, None, took_ms)
        elif delay_seconds:
            self._release(lease, delay_seconds)
        else:
            # A handler that stopped without a request has noticed that its lease may be lost.
            is_stopping = lease.told is StopReason.STOPPING
            self._release(lease, 0.0, ReturnReason.WORKER_STOPPING if is_stopping else ReturnReason.WORKER_FROZEN)

    def _finish(
        self,
        lease: Lease,
        status: TaskStatus,
        kind: ErrorKind | None = None,
        message: str | None = None,
        took_ms: int = 0,
        output: bytes | None = None,
        metrics: dict[str, Any] | None = None,
        records: bytes | None = None,
        error: bytes | None = None,
        warnings: bytes | None = None,
    ) -> None:
        self._forget(lease)
        self.tasks_done += 1
        finished = self._exchange.report(
            Finished(
                lease.task, status, kind, message, lease.began_ns, took_ms, output, metrics, records, error, warnings
            )
        )
        if self._spans is not None:
            self._spans.record(lease, finished.status, finished.error_kind, took_ms)
        if finished.error_kind is not None:
            log.info("task_failed", error_kind=finished.error_kind, error=finished.error_message, **lease.ids)
        elif log.is_enabled_for(logging.DEBUG):
            log.debug("task_ended", status=finished.status, duration_ms=took_ms, **lease.ids)

    def _release(self, lease: Lease, delay_seconds: float | None, reason: ReturnReason | None = None) -> None:
        """A delay of None means that the task never ran, a reason of None that its handler asked for the delay."""
        self._forget(lease)
        if self._spans is not None and lease.began_ns:
            self._spans.record(lease, "given_back", None, (time.monotonic_ns() - lease.began_ns) // 1_000_000)
        self._exchange.release(ReturnedLease(*lease.pair, delay_seconds, reason))

    def drop(self, lease: Lease) -> None:
        """Another worker holds the task now: report nothing more about it, and stop it if it runs."""
        self.placement.withdraw(lease)
        child = lease.child
        self._forget(lease)
        if child is not None:
            child.leases.pop(lease.key, None)
            if child.kind is ChildKind.SHARED:
                child.interrupt(lease)
            elif child.begun().key == lease.key:
                child.kill()
            else:
                child.begin_taking_back(time.monotonic())

    def tell_all_to_stop(self, now: float) -> None:
        self.is_stopping = True
        self.staff.is_hiring = False
        for lease in list(self.by_pair.values()):
            self.tell_to_stop(lease, StopReason.STOPPING, now)

    def _forget(self, lease: Lease) -> None:
        self.by_pair.pop(lease.pair, None)
        if lease.progress is not None and lease.has_shown_progress:
            self._exchange.tell_progress(lease.progress)
        if lease.output is not None:
            lease.write_output("", is_end=True)
        if lease.log is not None:
            self._exchange.keep_logs(lease.log.take_chunks())

    def finish_taking_back(self, child: ChildProcess) -> None:
        """Check which task has begun, then handle earlier frames; the other tasks are taken back."""
        begun = child.begun()
        self.listen_to(child)
        child.taking_back_since = None
        for key, lease in list(child.leases.items()):
            if key == begun.key:
                if lease.told is not None:
                    child.tell_to_stop(lease, lease.told)
            elif key <= child.taken_back_up_to:
                del child.leases[key]
                self._put_back(lease)
        if begun.key and begun.key not in child.leases and child.begun() == begun:
            # It began a task that this worker no longer holds.
            child.kill()

    def _put_back(self, lease: Lease) -> None:
        """The task has not begun, or its start was not reported: it waits for a child again."""
        lease.child = None
        lease.began_ns = 0
        lease.waits_since = time.monotonic()
        if lease.told is StopReason.CANCELLED:
            self._finish(lease, TaskStatus.CANCELLED)
        elif self.is_stopping:
            self._give_back(lease)
        else:
            lease.told = None
            self.placement.add(lease)

    def _give_back(self, lease: Lease) -> None:
        """Release a task that has not run here, although its start may be marked."""
        reason = ReturnReason.WORKER_STOPPING if self.is_stopping else ReturnReason.WORKER_BUSY
        self._release(lease, 0.0 if lease.is_start_asked else None, reason)

    def give_back_what_waits(self, now: float) -> None:
        """Release tasks that have waited too long for a child: other workers may have a free one."""
        for lease in self.placement.take_waiting(now):
            self._give_back(lease)

    # Children go.

    def bury(self, child: ChildProcess, ending: Ending) -> None:
        """Read its last frames, settle the task that it ran, and take back those that had not begun."""
        # Not until end of file: a process that it forked may still hold the other end open.
        while self.listen_to(child):
            pass
        while self._read_output(child):
            pass
        begun = child.begun()
        for lease in list(child.leases.values()):
            self._scratch.remove_of(*lease.pair)
            has_begun = child.kind is ChildKind.SHARED or lease.key == begun.key
            if has_begun and lease.told is not None:
                self._stopped(lease, None)
            elif lease.key == begun.key:
                lease.began_ns = begun.at_ns
                self.look_at_progress(child, lease)
                took_ms = (time.monotonic_ns() - begun.at_ns) // 1_000_000
                message = ending.cause(child.death)
                error = _memory_error(message) if message.startswith(OUT_OF_MEMORY) else None
                self._finish(lease, TaskStatus.FAILED, ErrorKind.WORKER_DIED, message, took_ms, error=error)
            else:
                # Any task that shared the child may be the cause: alone, the guilty one fails again.
                lease.was_with_the_dead = child.kind is ChildKind.SHARED
                self._put_back(lease)
        if child.reserved_for is not None:
            self._put_back(child.reserved_for)
        self.staff.dismiss(child)
        self.staff.note_death(child, ending)

    def kill_all(self) -> None:
        """This worker has lost all its leases: stop everything."""
        self.placement.clear()
        self.by_pair.clear()
        for child in self.staff.children:
            if child.leases:
                child.kill()
            child.leases.clear()
            child.reserved_for = None


def _memory_error(message: str) -> bytes:
    return orjson.dumps(HandlerError(code="MEMORY_ERROR", message=message).model_dump(mode="json"))


def _as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


_HEAR: dict[str, Callable[[Crew, ChildProcess, Frame], None]] = {
    "done": Crew._hear_done,
    "log": Crew._hear_log,
    "progress": Crew._hear_progress,
    "checkpoint": Crew._hear_checkpoint,
    "skipped": Crew._hear_skipped,
    "ready": Crew._hear_ready,
    "broken": Crew._hear_broken,
}
