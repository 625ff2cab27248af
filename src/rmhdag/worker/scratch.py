"""Scratch folders: one root per worker process, deleted when it ends, or by the next worker after a crash."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from pathlib import Path

from rmhdag.machine.private_files import make_private_folder

PREFIX = "worker-"


class Scratch:
    """A folder that belongs to this worker as long as it holds the lock on the file beside it.

    `root` is a private folder, which the next worker finds and cleans; without it, a new temporary folder is used.
    """

    def __init__(self, root: Path | None) -> None:
        # In the temporary folder, another user may have created any predictable name before us, so the name is random.
        self._passing = Path(tempfile.mkdtemp(prefix="rmhdag-scratch-")) if root is None else None
        parent = self._passing or make_private_folder(root or Path())
        _sweep(parent)
        # Locked under a name that no clean-up looks for, then renamed: so no clean-up finds it unlocked.
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        hidden = folder.with_name(f".{folder.name}")
        self._lock = os.open(hidden, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(_lock_file(folder))
        self.folder = folder

    def remove_of(self, task_id: str, lease_epoch: int) -> None:
        """Delete the files of a killed child in a thread, because they may be large."""
        folder = self.folder / f"{task_id}.{lease_epoch}"
        if folder.exists():
            threading.Thread(target=shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, daemon=True).start()

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        _lock_file(self.folder).unlink(missing_ok=True)
        os.close(self._lock)
        if self._passing is not None:
            shutil.rmtree(self._passing, ignore_errors=True)


def _lock_file(folder: Path) -> Path:
    return folder.with_name(folder.name + ".lock")


def _sweep(parent: Path) -> None:
    """Delete folders of workers that were killed: their locks are free."""
    for lock_file in parent.glob(f"{PREFIX}*.lock"):
        try:
            descriptor = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
            lock_file.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
