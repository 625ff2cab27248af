"""Whose files and folders we trust: our own and root's, unless others can write them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

ROOT = 0


def distrust(path: str | Path) -> str | None:
    """Why a file or folder is not trusted; None if it is."""
    try:
        status = os.stat(path)
    except OSError as error:
        return f"it cannot be examined ({error.strerror})"
    if status.st_uid not in (ROOT, os.geteuid()):
        return f"it belongs to {name_of(status.st_uid)}"
    return "everybody can write it" if status.st_mode & stat.S_IWOTH else None


def distrust_place(path: Path) -> str | None:
    """Why another user could replace this folder; None if that is impossible.

    In a sticky folder such as /tmp, users can rename only their own files.
    """
    for folder in path.parents:
        try:
            status = os.lstat(folder)
        except OSError as error:
            return f"{folder} cannot be examined ({error.strerror})"
        if status.st_uid not in (ROOT, os.geteuid()):
            return f"{folder} belongs to {name_of(status.st_uid)}"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"everybody can write {folder}"
    return None


def name_of(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"
