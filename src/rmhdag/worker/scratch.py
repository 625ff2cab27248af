"""Scratch folders: one root per worker process, swept when it ends, or by the next worker if it could not."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from pathlib import Path

PREFIX = "worker-"


class Scratch:
    """A folder that is ours as long as we hold the lock on the file beside it."""

    def __init__(self, root: Path | None) -> None:
        parent = root or Path(tempfile.gettempdir(), f"rmhdag-scratch-{os.getuid()}")
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
