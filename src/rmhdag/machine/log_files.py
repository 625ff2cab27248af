"""Rotates log files that processes hold open: a file that is too long is copied and then emptied.

Writers hold the file open for appending, so their next line goes to the beginning of the emptied file.
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
# Number of rotated files, without the current one.
OLD_LOGS = 3
LOOK_SECONDS = 1.0


def open_log(path: Path) -> BinaryIO:
    """Open for appending, readable by this user only, and never through a link."""
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
        # Lines that arrive during the copy are copied too; only those between these two statements are lost.
        shutil.copyfileobj(source, copy)
        os.truncate(source.fileno(), 0)


def open_privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, PRIVATE_FILE)


def old_log(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


class LogKeeper:
    """A thread that checks the files once per second, until it is closed."""

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
                # A full disk does not end the thread: the next check may find space.
                with suppress(OSError):
                    rotate_if_long(path, self._most_bytes)
