"""Files and folders that no other user of this machine may read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from rmhdag.machine.trust import distrust_place, name_of

PRIVATE_UMASK = 0o077
PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
# Others may pass through to their own files inside, but not list the folder.
PASSABLE_FOLDER = 0o711


class UnsafeFolder(Exception):
    """Another user could read, change or replace the files in this folder."""


def keep_files_private() -> None:
    """Make all new files of this process and its children accessible to their own user only."""
    os.umask(PRIVATE_UMASK)


def make_private_folder(path: Path) -> Path:
    """Create the folder, or accept our own that only we can write. Raises UnsafeFolder or OSError."""
    path = Path(os.path.abspath(path))
    make_passable_parents(path)
    with suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_FOLDER)
    # A link is not followed, so no other user can choose where the files go.
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeFolder(f"{path} is a link or a file, not a folder")
    if status.st_uid != os.geteuid():
        raise UnsafeFolder(f"{path} belongs to {name_of(status.st_uid)}")
    # Never changed here: it may be a folder such as /tmp, which others need.
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFolder(f"others can write {path}")
    reason = distrust_place(path.resolve())
    if reason is not None:
        raise UnsafeFolder(f"{path} could be replaced: {reason}")
    return path


def make_home(path: Path) -> None:
    """Create the data folder: private; as root, passable for the account of the embedded server."""
    make_passable_parents(path)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    tighten(path, PASSABLE_FOLDER if os.geteuid() == 0 else PRIVATE_FOLDER)


def make_passable_parents(path: Path) -> None:
    """Create missing folders; as root passable, whatever the umask, because other accounts may own folders inside."""
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        with suppress(FileExistsError):
            parent.mkdir(mode=PRIVATE_FOLDER)
            if os.geteuid() == 0:
                parent.chmod(PASSABLE_FOLDER)


def write_private(path: Path, text: str) -> None:
    """Write under another name, then rename: readers see the old text or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh.rename(path)


def tighten_home(home: Path) -> None:
    """Restrict files and folders that earlier versions left accessible."""
    for name in ("logs", "storage"):
        tighten(home / name, PRIVATE_FOLDER)
    for folder in (home, home / "logs"):
        with suppress(OSError):
            for name in os.listdir(folder):
                tighten(folder / name, PRIVATE_FILE)


def tighten(path: Path, mode: int) -> None:
    """Set the mode of our own folder (if the mode is one for folders) or file; links are not followed."""
    wants_folder = bool(mode & stat.S_IXUSR)
    with suppress(OSError):
        status = os.lstat(path)
        is_kind = stat.S_ISDIR(status.st_mode) if wants_folder else stat.S_ISREG(status.st_mode)
        if is_kind and status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode:
            path.chmod(mode)
