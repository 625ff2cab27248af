"""How our own processes are started, and where Python looks for modules: never first in the current folder.

A file in the folder in which rmhdag is started must not replace an installed module.
"""

from __future__ import annotations

import importlib.util
import os
import sys

from rmhdag.machine.trust import distrust

PATH_VARIABLE = "PYTHONPATH"
# If started in one of these, nothing is removed: all modules come from there.
INSTALLED = frozenset({"site-packages", "dist-packages"})
OUR_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def python_command(module: str, *arguments: str) -> list[str]:
    """`python -P -m module`: without -P, Python would search the current folder before the installed modules."""
    return [sys.executable, "-P", "-m", module, *arguments]


def leave_current_folder_out() -> None:
    """Take the current folder out of the module path of this process and of those that inherit its environment.

    `PYTHONPATH=.` puts it there too; handlers in the current folder are still found, by `search_current_folder`.
    """
    here = current_folder()
    if here is None or os.path.basename(here) in INSTALLED or os.path.samefile(here, OUR_SOURCE):
        return
    sys.path[:] = [folder for folder in sys.path if not _is(folder, here)]
    listed = os.environ.get(PATH_VARIABLE)
    if listed is not None:
        # An empty entry means the current folder.
        folders = [folder for folder in listed.split(os.pathsep) if not _is(folder, here)]
        os.environ[PATH_VARIABLE] = os.pathsep.join(folders)


def search_current_folder(module: str) -> str | None:
    """Search this module in the current folder too, after all others; returns the reason if that is not safe."""
    try:
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            return None
    except (ImportError, ValueError):
        return None
    here = current_folder()
    if here is None:
        return "it does not exist any more"
    reason = distrust(here)
    if reason is None and here not in sys.path:
        sys.path.append(here)
    return reason


def current_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _is(folder: str, here: str) -> bool:
    return os.path.realpath(folder or here) == os.path.realpath(here)
