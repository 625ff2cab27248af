"""Scratch folders: one root per worker process, swept when it ends, or by the next worker if it could not."""

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
    """A folder that is ours as long as we hold the lock on the file beside it.

    `root` is a folder of our own, which the next worker finds and sweeps; without it, one that only we know of.
    """

    def __init__(self, root: Path | None) -> None:
        # In the temporary folder anybody may have made any name before us, so ours is a new one each time.
        self._passing = Path(tempfile.mkdtemp(prefix="rmhdag-scratch-")) if root is None else None
        parent = self._passing or make_private_folder(root or Path())
        _sweep(parent)
        # Locked under a name that no sweep looks for, then renamed: so no sweep finds it unlocked.
        made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        hidden = made.with_name(f".{made.name}")
        self._lock = os.open(hidden, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(_lock_file(made))
        self.folder = made

    def remove_of(self, task_id: str, lease_epoch: int) -> None:
        """What a child left behind that was killed; beside the supervisor's loop, as it may be large."""
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
    """Folders of workers that were killed: nobody holds their lock."""
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
