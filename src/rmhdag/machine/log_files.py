"""Log files that processes hold open, kept small while these run: what is too long is moved aside and emptied.

Those who write hold the file open for appending, so what they write next goes to the beginning of the emptied file.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from rmhdag.machine.private_files import PRIVATE_FILE

LOG_BYTES = 16 * 1024 * 1024
# Those moved aside; with the one that is written, one more.
OLD_LOGS = 3
LOOK_SECONDS = 1.0


def open_log(path: Path) -> BinaryIO:
    """For appending, for nobody else to read, and never through a link."""
    rotate_if_long(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, PRIVATE_FILE), "ab")


def rotate_if_long(path: Path, most_bytes: int = LOG_BYTES) -> bool:
    """`x.log` becomes `x.log.1`, that one `x.log.2` and so on; the oldest is dropped."""
    with suppress(FileNotFoundError):
        if path.stat().st_size <= most_bytes:
            return False
        for number in range(OLD_LOGS - 1, 0, -1):
            with suppress(FileNotFoundError):
                old_log(path, number).rename(old_log(path, number + 1))
        move_content(path, old_log(path, 1))
        return True
    return False


def move_content(path: Path, target: Path) -> None:
    with path.open("r+b") as source, open(target, "wb", opener=open_privately) as copy:
        # What arrives while the copy is made is copied too; only what comes between these two lines is lost.
        shutil.copyfileobj(source, copy)
        os.truncate(source.fileno(), 0)


def open_privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, PRIVATE_FILE)


def old_log(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


class LogKeeper:
    """A thread that looks at the files once per second, until it is closed."""

    def __init__(self, paths: Callable[[], Iterable[Path]], most_bytes: int = LOG_BYTES) -> None:
        self._paths = paths
        self._most_bytes = most_bytes
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="logs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            for path in self._paths():
                # A full disk is no reason to end: the next look may find room.
                with suppress(OSError):
                    rotate_if_long(path, self._most_bytes)
