"""How long a command waits for a server or a database that does not answer: it says so, and gives up soon."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rmhdag.cli.output import say
from rmhdag.client.errors import Unavailable
from rmhdag.client.steps import Pause

MOST_SECONDS = 8.0
NOTICE_SECONDS = 1.0
# Who was answered for so long has begun anew.
FORGOTTEN_SECONDS = 30.0


class Patience:
    """Asked before each pause of the client. `most_seconds` None: as long as the client tries."""

    def __init__(self, where: str) -> None:
        self.most_seconds: float | None = MOST_SECONDS
        self._where = where
        self._since = self._last = -FORGOTTEN_SECONDS

    def __call__(self, pause: Pause) -> None:
        if not isinstance(pause.after, Unavailable):
            return
        now = time.monotonic()
        is_first = now - self._last > FORGOTTEN_SECONDS
        self._last = now
        if is_first:
            self._since = now
        limit = self.most_seconds
        if limit is not None and now + pause.seconds - self._since > limit:
            raise pause.after
        if is_first:
            how_long = "" if limit is None else f" (at most {limit:.0f} s)"
            say(f"{self._where}: {pause.after.detail}; waiting{how_long}")


@contextmanager
def noticed(text: str) -> Iterator[None]:
    """Say it if the block takes longer than a second."""
    timer = threading.Timer(NOTICE_SECONDS, say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
