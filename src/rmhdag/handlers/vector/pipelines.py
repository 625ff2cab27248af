"""Two steps of a task at the same time, each in one thread and in the order of the file.

GDAL, GEOS and Arrow release the interpreter while they work, so a second core can read the next batch or write the one
before. Few batches wait at once: they are what a task needs memory for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")
LOOK_SECONDS = 0.1


class _End(Generic[T]):
    """The last thing in the queue: nothing follows, or this error."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(items: Iterator[T], depth: int = 1) -> Generator[T, None, None]:
    """The same items, of which `depth` are made ahead. An error comes where its item would have come."""
    queue: Queue[T | _End[T]] = Queue(depth)
    over = threading.Event()

    def put(item: T | _End[T]) -> None:
        while not over.is_set():
            try:
                queue.put(item, timeout=LOOK_SECONDS)
                return
            except Full:
                continue

    def run() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                put(item)
                if over.is_set():
                    break
        except BaseException as failure:
            error = failure
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            put(_End(error))

    thread = threading.Thread(target=run, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
            # Otherwise this item would be held until the next one is there.
            del item
    finally:
        over.set()
        with suppress(Empty):
            queue.get_nowait()
        thread.join()


class WriteBehind:
    """Runs actions one after the other in a thread; an error is raised by the next call, and at the end."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="write-behind")
        self._last: Future[None] | None = None

    def do(self, action: Callable[[], None]) -> None:
        """Waits for the action before this one."""
        self.wait()
        self._last = self._pool.submit(action)

    def wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> WriteBehind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """After an error of the caller, that of the action is not asked for."""
        try:
            if error is None:
                self.wait()
        finally:
            self._pool.shutdown()
