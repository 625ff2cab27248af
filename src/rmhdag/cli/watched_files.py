"""Files whose changes `rmhdag up --reload` follows: those of handlers and workflows, and how they looked last."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

import rmhdag

# Looking at more than that several times per second would be felt.
MOST_FILES = 5_000
INSTALLED = frozenset({"site-packages", "dist-packages"})
LEFT_OUT = frozenset({"__pycache__", "node_modules", "venv", "build", "dist"})


class Stamp(NamedTuple):
    modified_ns: int
    size_bytes: int
    inode: int


class WatchedFiles:
    """`changes` names the files that differ from what was last reported, once they have stopped changing."""

    def __init__(self, find: Callable[[], Iterable[Path]]) -> None:
        self._find = find
        self._reported = self._look()
        self._seen = self._reported

    def __len__(self) -> int:
        return len(self._reported)

    def paths(self) -> list[Path]:
        return sorted(self._reported)

    def changes(self) -> list[Path]:
        """Also files that are new or gone. An editor may write a file in steps: one look later it is whole."""
        before, self._seen = self._seen, self._look()
        if self._seen != before or self._seen == self._reported:
            return []
        old, self._reported = self._reported, self._seen
        paths = sorted({*old, *self._seen})
        return [path for path in paths if old.get(path) != self._seen.get(path)]

    def _look(self) -> dict[Path, Stamp]:
        stamps = {}
        for path in self._find():
            try:
                status = path.stat()
            except OSError:
                continue
            stamps[path] = Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
            if len(stamps) == MOST_FILES:
                break
        return stamps


def handler_files(modules: Sequence[str]) -> Iterator[Path]:
    """The code beside each module, and rmhdag's own handlers if these are not installed but a source folder.

    Nothing is imported: code that cannot be loaded must not end the process that watches it.
    """
    folders = dict.fromkeys(folder for name in modules for folder in code_folders(name))
    for folder, is_deep in folders:
        yield from python_files(folder, is_deep=is_deep)
    own = Path(rmhdag.__file__).parent
    if not is_installed(own):
        yield from python_files(own / "handlers", is_deep=True)


def code_folders(module: str) -> Iterator[tuple[Path, bool]]:
    """Where a module of the user's lies: its package; or, for their own code, the folder with its neighbours."""
    spec = PathFinder.find_spec(module.partition(".")[0], [*sys.path, str(Path.cwd())])
    if spec is None:
        return
    packages = [Path(place) for place in spec.submodule_search_locations or ()]
    homes = [package.parent for package in packages] or [Path(spec.origin or "").parent]
    for package in packages:
        yield package, True
    for home in homes:
        if is_installed(home):
            continue
        yield home, False
        for folder in folders_in(home):
            if (folder / "__init__.py").exists():
                yield folder, True


def is_installed(folder: Path) -> bool:
    return not INSTALLED.isdisjoint(folder.parts)


def folders_in(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir() and is_looked_into(entry.name))
    except OSError:
        return []


def is_looked_into(name: str) -> bool:
    return not name.startswith(".") and name not in LEFT_OUT


def python_files(folder: Path, *, is_deep: bool) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if is_deep and is_looked_into(name))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def flow_files(names: Sequence[str]) -> Iterator[Path]:
    """What `--workflows` names: files, and the workflow files of folders."""
    from rmhdag.workflow import workflow_files

    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from workflow_files(path)
        else:
            yield path
