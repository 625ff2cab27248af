"""Files and folders that nobody else on this machine may read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from rmhdag.machine.trust import distrust_place, name_of

PRIVATE_UMASK = 0o077
PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
# Lets others pass through to what they own inside, and list nothing.
PASSABLE_FOLDER = 0o711


class UnsafeFolder(Exception):
    """Somebody else could read, change or replace what is written there."""


def keep_files_private() -> None:
    """From now on, what this process and those it starts create is for their own user alone."""
    os.umask(PRIVATE_UMASK)


def make_private_folder(path: Path) -> Path:
    """Make it, or take one that is ours and that nobody else can write. Raises UnsafeFolder or OSError."""
    path = Path(os.path.abspath(path))
    make_passable_parents(path)
    with suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_FOLDER)
    # A link is not followed, so nobody chooses for us where the files go.
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFolder(f"{path} is a link or a file, not a folder")
    if found.st_uid != os.geteuid():
        raise UnsafeFolder(f"{path} belongs to {name_of(found.st_uid)}")
    # Never changed here: it may be a folder such as /tmp, which others need.
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFolder(f"others can write {path}")
    reason = distrust_place(path.resolve())
    if reason is not None:
        raise UnsafeFolder(f"{path} could be replaced: {reason}")
    return path


def make_home(path: Path) -> None:
    """The data folder: ours alone; as root, passable for the account of the embedded server, which lives inside."""
    make_passable_parents(path)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    tighten(path, PASSABLE_FOLDER if os.geteuid() == 0 else PRIVATE_FOLDER)


def make_passable_parents(path: Path) -> None:
    """Those that are missing; as root passable, whatever the umask, since others may own what will lie below."""
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        with suppress(FileExistsError):
            parent.mkdir(mode=PRIVATE_FOLDER)
            if os.geteuid() == 0:
                parent.chmod(PASSABLE_FOLDER)


def write_private(path: Path, text: str) -> None:
    """Aside and then renamed: whoever reads it finds the old text or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(text)
    fresh.rename(path)


def tighten_home(home: Path) -> None:
    """Close what earlier versions left open: the folders inside, and the files beside them."""
    for name in ("logs", "storage"):
        tighten(home / name, PRIVATE_FOLDER)
    for folder in (home, home / "logs"):
        with suppress(OSError):
            for name in os.listdir(folder):
                tighten(folder / name, PRIVATE_FILE)


def tighten(path: Path, mode: int) -> None:
    """Set the mode of what is ours: of a folder if the mode is one for folders, else of a file; not through a link."""
    wants_folder = bool(mode & stat.S_IXUSR)
    with suppress(OSError):
        found = os.lstat(path)
        is_kind = stat.S_ISDIR(found.st_mode) if wants_folder else stat.S_ISREG(found.st_mode)
        if is_kind and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != mode:
            path.chmod(mode)
