"""Ownership of a data folder: a file lock that the kernel releases when its holder dies."""

import fcntl
import os
from pathlib import Path

from rmhdag.embedded.failure import EmbeddedPostgresError


class FolderLock:
    """Held for as long as this process owns the server. Child processes do not inherit it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def taken(self) -> bool:
        return self._file is not None

    def try_to_take(self) -> bool:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except PermissionError as error:
            raise EmbeddedPostgresError(
                f"{self._path.parent} belongs to another user; start this as that user or choose another data folder"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file
        return True

    def holder(self) -> str:
        """The process that acquired it last, for messages."""
        try:
            return self._path.read_text(encoding="ascii").strip() or "unknown"
        except (OSError, UnicodeDecodeError):
            return "unknown"

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
