"""Whose files and folders we trust: our own and root's, as long as nobody else can write them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

ROOT = 0


def distrust(path: str | Path) -> str | None:
    """Why a file or folder is not to be trusted; None if it is."""
    try:
        found = os.stat(path)
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    if found.st_uid not in (ROOT, os.geteuid()):
        return f"it belongs to {name_of(found.st_uid)}"
    return "everybody can write it" if found.st_mode & stat.S_IWOTH else None


def distrust_place(path: Path) -> str | None:
    """Why somebody else could put another folder in the place of this one; None if nobody can.

    A sticky folder such as /tmp lets nobody rename what belongs to others.
    """
    for folder in path.parents:
        try:
            found = os.lstat(folder)
        except OSError as error:
            return f"{folder} cannot be looked at ({error.strerror})"
        if found.st_uid not in (ROOT, os.geteuid()):
            return f"{folder} belongs to {name_of(found.st_uid)}"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"everybody can write {folder}"
    return None


def name_of(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"
