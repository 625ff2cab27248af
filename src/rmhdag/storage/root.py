"""The operations of a kind of store; `rmhdag.storage.zones` builds everything else on them.

A key is the container and the path, checked, joined by `/`. Content goes in and out in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from rmhdag.models.blobs import check_path

PIECE_BYTES = 1024 * 1024


class Head(NamedTuple):
    size_bytes: int
    etag: str
    modified_at: datetime
    # Available without reading the content only if the store keeps it as metadata.
    sha256: str | None = None


class Entry(NamedTuple):
    key: str
    head: Head


class Level(NamedTuple):
    """What lies in one folder, by name; `is_complete` is False if there is more."""

    files: list[Entry]
    folders: list[str]
    is_complete: bool


class Condition(NamedTuple):
    """Write only if the blob does not exist, or only if it has the known etag."""

    if_absent: bool = False
    if_match: str | None = None


ALWAYS = Condition()


class GdalSource(NamedTuple):
    """The path that GDAL opens, and options that block all other network access."""

    path: str
    options: dict[str, str]


class Root(Protocol):
    """The root of a zone. All methods raise the errors of `rmhdag.storage.errors`."""

    # Without a slash at its end.
    url: str

    def head(self, key: str) -> Head: ...

    def pieces(self, key: str) -> Iterator[bytes]:
        """The content; what is read is one version of it, even if it is replaced meanwhile."""

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Less than the length at the end of the content."""

    def write(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        size_bytes: int | None,
        sha256: str | None,
        media_type: str | None,
        condition: Condition,
    ) -> None:
        """Visible as a whole or not at all."""

    def take(self, key: str, local: Path, before_visible: Callable[[], None]) -> bool:
        """Make a local file the content without copying it. False if that is impossible; then nothing is done."""

    def delete(self, key: str) -> None: ...

    def entries(self, folder: str) -> Iterator[Entry]:
        """All below a folder, at any depth, in the order of their keys."""

    def folders(self, above: str = "") -> Iterator[str]:
        """The names at the first level, or in one folder of it."""

    def level(self, folder: str, most: int) -> Level:
        """The files and folders in a folder, not below; at most so many of each."""

    def gdal_path(self, key: str) -> str: ...

    def gdal_source(self, key: str) -> AbstractContextManager[GdalSource]: ...

    def gdal_options(self, key: str) -> dict[str, str]: ...


def is_usable(name: str, folder: str) -> bool:
    """Whether a name found in a folder is a valid address; others are logged."""
    try:
        check_path(name)
    except ValueError:
        # Not loaded by commands that only read settings.
        from rmhdag.observability.logs import get_logger

        get_logger(__name__).warning("blob_not_listed", folder=folder, name=ascii(name), remedy="rename it")
        return False
    return True
