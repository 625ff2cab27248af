"""Zip archives from outside: what is in them is checked before anything is unpacked."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.handlers.vector_limits import MEGABYTE, VectorLimits

MOST_ENTRIES = 10_000
ENCRYPTED = 0x1
# macOS adds these, and nobody means them.
IGNORED_FOLDERS = ("__MACOSX/",)
NESTED = (".zip", ".7z", ".rar", ".gz", ".tgz", ".tar", ".kmz")


class Archive:
    """The entries of an archive that is safe to unpack."""

    def __init__(self, path: Path, name: str, limits: VectorLimits) -> None:
        self._path = path
        self.name = name
        self._limits = limits
        self.entries = self._checked_entries()

    def _checked_entries(self) -> list[zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise VectorRefused(
                f"{self.name} is a damaged ZIP archive ({error}): make it again and upload it again.",
                code="CORRUPTED_FILE",
            ) from None
        if len(infos) > MOST_ENTRIES:
            raise VectorRefused(
                f"{self.name} has more than {MOST_ENTRIES:,} entries: put the data alone into it.",
                code="INVALID_FORMAT",
            )
        total = 0
        entries = []
        for info in infos:
            self._check(info)
            total += info.file_size
            parts = PurePosixPath(info.filename).parts
            if not info.is_dir() and not info.filename.startswith(IGNORED_FOLDERS) and not parts[-1].startswith("._"):
                entries.append(info)
        if total > self._limits.vector_max_unpacked_mb * MEGABYTE:
            raise VectorRefused(
                f"{self.name} unpacks to {total / MEGABYTE:,.0f} MB, and at most "
                f"{self._limits.vector_max_unpacked_mb:,} MB are accepted (RMHDAG_VECTOR_MAX_UNPACKED_MB).",
                code="FILE_TOO_LARGE",
            )
        nested = next((info.filename for info in entries if info.filename.lower().endswith(NESTED)), None)
        if nested is not None:
            raise VectorRefused(
                f"{self.name} has another archive in it ({nested[:100]!r}): unpack that, and put its files into one "
                "ZIP.",
                code="INVALID_FORMAT",
            )
        return entries

    def _check(self, info: zipfile.ZipInfo) -> None:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
            raise VectorRefused(
                f"{self.name} has an entry that leads out of it ({info.filename[:100]!r}): make the ZIP again from "
                "plain files.",
                code="INVALID_FORMAT",
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise VectorRefused(
                f"{self.name} has a symbolic link in it ({info.filename[:100]!r}): put the file itself into the ZIP.",
                code="INVALID_FORMAT",
            )
        if info.flag_bits & ENCRYPTED:
            raise VectorRefused(
                f"{self.name} is protected by a password: upload it without one.", code="FILE_UNREADABLE"
            )

    def ending(self, suffix: str) -> list[zipfile.ZipInfo]:
        return [info for info in self.entries if info.filename.lower().endswith(suffix)]

    def unpack(self, infos: Sequence[zipfile.ZipInfo], folder: Path, names: Sequence[str] | None = None) -> list[Path]:
        """Each entry as a file; never more than the archive claims, whatever it holds."""
        targets = []
        for number, info in enumerate(infos):
            target = folder / (info.filename.replace("\\", "/") if names is None else names[number])
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with zipfile.ZipFile(self._path) as archive, archive.open(info) as source, target.open("xb") as file:
                    shutil.copyfileobj(_Bounded(source, info.file_size), file, MEGABYTE)
            except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, OSError, RuntimeError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise VectorRefused(
                    f"{self.name}: {info.filename[:100]!r} cannot be unpacked ({error}): make the ZIP again.",
                    code="CORRUPTED_FILE",
                ) from None
            targets.append(target)
        return targets


class _Bounded:
    """A stream that ends with an error if it has more than its header says."""

    def __init__(self, source: IO[bytes], size_bytes: int) -> None:
        self._source = source
        self._room = size_bytes

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(size)
        self._room -= len(data)
        if self._room < 0:
            raise zipfile.BadZipFile("it is larger than the archive says")
        return data
