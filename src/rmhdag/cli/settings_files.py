"""Files with settings: which ones count, and what is wrong with them by line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.embedded.choice import default_folder
from rmhdag.machine.trust import distrust

CONFIG_VARIABLE = "RMHDAG_CONFIG"
DEVELOPMENT_FILE = "development.toml"
LOCAL_FILE = Path("rmhdag.toml")


class ReadFile(NamedTuple):
    path: Path
    values: dict[str, Any]


def find_file() -> Path | None:
    """The file that is named; else ./rmhdag.toml; else the user's own. One that others could write does not count."""
    named_path = os.environ.get(CONFIG_VARIABLE)
    if named_path:
        if not Path(named_path).is_file():
            raise CommandFailed(
                f"{CONFIG_VARIABLE} names {named_path}, which is not a file",
                remedy=f"Correct or unset {CONFIG_VARIABLE}.",
                code=ExitCode.NOT_FOUND,
            )
        return Path(named_path)
    return next((path for path in usual_files() if path.is_file() and distrust(path) is None), None)


def usual_files() -> tuple[Path, Path]:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return LOCAL_FILE, Path(home, "rmhdag", "config.toml")


def untrusted_files() -> list[str]:
    """Sentences about files that others could have written; they are not read unless RMHDAG_CONFIG names them."""
    if os.environ.get(CONFIG_VARIABLE):
        return []
    return [
        f"{path} is ignored, because {reason}; change its owner or mode, or name it by {CONFIG_VARIABLE}"
        for path in usual_files()
        if path.is_file() and (reason := distrust(path))
    ]


def read_files(names: Collection[str]) -> list[ReadFile]:
    """The settings file, and beneath it the one that `rmhdag up` has left in the data folder.

    A file that RMHDAG_CONFIG names is read alone: nothing of a development set-up may leak into it.
    """
    path = find_file()
    files = [] if path is None else [read_file(path, names)]
    if not os.environ.get(CONFIG_VARIABLE):
        home = os.environ.get("RMHDAG_HOME") or next(
            (file.values["home"] for file in files if "home" in file.values), None
        )
        development = development_file(None if home is None else Path(home))
        if development.is_file() and distrust(development) is None:
            files.append(read_file(development, names))
    return files


def development_file(home: Path | None) -> Path:
    return (home or default_folder()) / DEVELOPMENT_FILE


def read_file(path: Path, names: Collection[str]) -> ReadFile:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}", code=ExitCode.INVALID) from None
    for name in values:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            raise CommandFailed(
                f"{path}:{line_of(path, name)}: unknown setting {name!r}",
                remedy=f"Did you mean {close[0]!r}?" if close else "`rmhdag config show` lists all settings.",
                code=ExitCode.INVALID,
            )
    return ReadFile(path, values)


def line_of(path: Path, name: str) -> int:
    pattern = re.compile(rf"^\s*\[?\s*[\"']?{re.escape(name)}[\"']?\s*[\]=.]")
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if pattern.match(line)), 1)
