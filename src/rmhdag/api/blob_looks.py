"""Looks at files in storage for the checks of workflows: bounded in time, in number, and bound to the namespace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LookTimeout
from functools import partial
from queue import SimpleQueue

from rmhdag.api.problems import RETRY_SECONDS, Problem
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.observability.logs import get_logger
from rmhdag.storage.errors import BlobNotFound, OutsideStorage, StorageError
from rmhdag.storage.settings import StorageSettings
from rmhdag.storage.zones import Storage, open_storage
from rmhdag.views.memory import Memory
from rmhdag.workflow.preflight import BlobAnswer, BlobQuestion, CheckFault, blob_fault

# All questions of one call together.
LOOK_SECONDS = 5.0
LOOKERS = 8
# Calls that wait at once. Each keeps a turn of its namespace, which has six: storage that does not answer must not take
# them all from those who ask for something else.
MOST_CALLS = 4

Look = Callable[[], BlobAnswer]

log = get_logger(__name__)


class BlobLooks:
    """Without a storage nothing is looked at: `is_possible` says so."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._storages: Memory[str, Storage] = Memory(100)
        self._room = threading.BoundedSemaphore(MOST_CALLS)
        self._lookers = Lookers()

    @property
    def is_possible(self) -> bool:
        return self._settings.is_given

    def close(self) -> None:
        self._lookers.close()

    def find(self, namespace: str, questions: Sequence[BlobQuestion]) -> dict[BlobQuestion, BlobAnswer]:
        """What is wrong and how large the files are, by question. Raises a Problem (503) if storage does not answer in
        time; that is never told as a missing file.
        """
        if not self._room.acquire(blocking=False):
            raise storage_unavailable("too many orders wait for storage")
        try:
            return self._find(self.storage_of(namespace), questions)
        except StorageError as error:
            log.warning("storage_unavailable", namespace=namespace, error=str(error))
            raise storage_unavailable("storage does not answer") from None
        finally:
            self._room.release()

    def _find(self, storage: Storage, questions: Sequence[BlobQuestion]) -> dict[BlobQuestion, BlobAnswer]:
        deadline = time.monotonic() + LOOK_SECONDS
        looks = [self._lookers.submit(partial(look, storage, question)) for question in questions]
        try:
            answers = [_result(future, deadline) for future in looks]
        finally:
            for future in looks:
                future.cancel()
        return dict(zip(questions, answers, strict=True))

    def storage_of(self, namespace: str) -> Storage:
        storage = self._storages.recall(namespace)
        return storage or self._storages.keep(namespace, open_storage(self._settings, namespace))


class Lookers:
    """A few threads, started on first use. They do not outlive the process, however long storage takes to answer; a
    ThreadPoolExecutor would wait for them at its end.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[BlobAnswer], Look] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0

    def submit(self, action: Look) -> Future[BlobAnswer]:
        with self._lock:
            if self._count < LOOKERS:
                self._count += 1
                threading.Thread(target=self._work, name=f"blob-look-{self._count}", daemon=True).start()
        future: Future[BlobAnswer] = Future()
        self._waiting.put((future, action))
        return future

    def close(self) -> None:
        with self._lock:
            for _ in range(self._count):
                self._waiting.put(None)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            future, action = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(action())
                except Exception as error:
                    future.set_exception(error)


def look(storage: Storage, question: BlobQuestion) -> BlobAnswer:
    """Raises StorageError if nobody can say."""
    try:
        zone = Zone(question.zone)
        if question.is_prefix:
            blob = next(iter(storage.list(zone, question.container, question.path)), None)
            return BlobAnswer(blob_fault(question, None if blob is None else blob.size_bytes))
        size_bytes = storage.info(BlobAddress(zone, question.container, question.path)).size_bytes
        return BlobAnswer(blob_fault(question, size_bytes), size_bytes)
    except BlobNotFound:
        return BlobAnswer(blob_fault(question, None))
    except OutsideStorage as error:
        return BlobAnswer(CheckFault("INVALID_PARAMETER", question.pointer, str(error)))


def _result(future: Future[BlobAnswer], deadline: float) -> BlobAnswer:
    try:
        return future.result(max(0.0, deadline - time.monotonic()))
    except LookTimeout:
        raise StorageError(f"no answer within {LOOK_SECONDS:g} seconds") from None


def storage_unavailable(reason: str) -> Problem:
    return Problem(
        503,
        "storage_unavailable",
        f"{reason}, so that it is not known whether the files of this order exist; nothing was created",
        remedy="Try again after the time in Retry-After.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )
