"""Logs, checkpoints and progress of tasks on their way to the platform."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

from rmhdag.models.leases import CheckpointToSave, LogChunk, Pair, TaskProgress
from rmhdag.observability.logs import get_logger
from rmhdag.worker.news import CheckpointSaved, Heard
from rmhdag.worker.transport import NotAllowed, Refused, Transport, TransportError
from rmhdag.worker.waiting import Waiting

log = get_logger(__name__)
LOGS_PER_CALL = 50


class TaskNotes:
    """Any thread adds, the exchange sends. Nothing is removed before it is sent.

    `is_desperate`: the same messages have failed repeatedly for an unknown reason, so the data is given up.
    """

    def __init__(self, transport: Transport, hear: Callable[[Heard], None]) -> None:
        self._transport = transport
        self._hear = hear
        self._lock = threading.Lock()
        # Only the newest checkpoint of each lease: an older one that was not saved yet is useless.
        self._checkpoints: dict[Pair, CheckpointToSave] = {}
        self._progress: dict[Pair, TaskProgress] = {}
        self._logs: Waiting[LogChunk] = Waiting()
        self._lives = 0

    @property
    def must_be_sent(self) -> bool:
        """Progress alone may be lost."""
        return bool(self._checkpoints or self._logs)

    def sizes(self) -> dict[str, int]:
        return {
            "log_chunks": len(self._logs),
            "checkpoints": len(self._checkpoints),
            "progress": len(self._progress),
        }

    def clear(self) -> None:
        """The worker has a new identity: what was to be sent under the previous one is void."""
        self._logs.clear()
        with self._lock:
            self._lives += 1
            self._checkpoints.clear()
            self._progress.clear()

    def add_checkpoint(self, checkpoint: CheckpointToSave) -> None:
        with self._lock:
            self._checkpoints[checkpoint.task_id, checkpoint.lease_epoch] = checkpoint

    def add_progress(self, progress: TaskProgress) -> None:
        with self._lock:
            self._progress[progress.task_id, progress.lease_epoch] = progress

    def add_logs(self, chunks: Iterable[LogChunk]) -> None:
        self._logs.add(*chunks)

    def send_logs(self, worker_id: str, *, is_desperate: bool) -> None:
        """Send all logs that are queued now; more may arrive meanwhile."""
        remaining = len(self._logs)
        while remaining:
            chunks = self._logs.first(min(remaining, LOGS_PER_CALL))
            send = partial(self._transport.keep_logs, worker_id, chunks)
            _tolerate(send, "task_logs_not_kept", is_desperate=is_desperate)
            self._logs.drop(len(chunks))
            remaining -= len(chunks)

    def send_checkpoints(self, worker_id: str, *, is_desperate: bool) -> None:
        with self._lock:
            waiting = list(self._checkpoints.values())
        if not waiting:
            return
        try:
            for checkpoint, refusal in zip(waiting, self._transport.save_checkpoints(worker_id, waiting), strict=True):
                self._checkpoint_was_saved(checkpoint, refusal)
        except (TransportError, NotAllowed):
            raise
        except Exception as error:
            if not is_desperate:
                raise
            for checkpoint in waiting:
                self._checkpoint_was_saved(checkpoint, f"{type(error).__name__}: {error}")

    def _checkpoint_was_saved(self, checkpoint: CheckpointToSave, refusal: str | None) -> None:
        pair = (checkpoint.task_id, checkpoint.lease_epoch)
        with self._lock:
            if self._checkpoints.get(pair) is not checkpoint:
                return  # replaced by a newer one, or answered before
            del self._checkpoints[pair]
        self._hear(CheckpointSaved(pair, refusal))

    def send_progress(self, worker_id: str, *, is_desperate: bool) -> None:
        with self._lock:
            progress, self._progress = self._progress, {}
            life = self._lives
        if not progress:
            return
        send = partial(self._transport.save_progress, worker_id, list(progress.values()))
        try:
            _tolerate(send, "progress_not_told", is_desperate=is_desperate)
        except BaseException:
            with self._lock:
                if life == self._lives:
                    self._progress = {**progress, **self._progress}
            raise


def _tolerate(send: Callable[[], None], event: str, *, is_desperate: bool) -> None:
    """For logs and progress: if the platform refuses them, the task goes on."""
    try:
        send()
    except Refused as error:
        log.warning(event, error=str(error))
    except (TransportError, NotAllowed):
        raise
    except Exception as error:
        if not is_desperate:
            raise
        log.error(event, error=f"{type(error).__name__}: {error}")
