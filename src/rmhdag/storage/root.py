"""What a kind of store must be able to do; `rmhdag.storage.zones` makes everything else from it.

A key is the container and the path, checked, joined by `/`. Content goes in and out in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from rmhdag.models.blobs import check_path

PIECE_BYTES = 1024 * 1024


class Head(NamedTuple):
    size_bytes: int
    etag: str
    modified_at: datetime
    # Known without reading only where the store keeps it beside the content.
    sha256: str | None = None


class Entry(NamedTuple):
    key: str
    head: Head


class Condition(NamedTuple):
    """Write only if nothing is there, or only over the one that is known."""

    if_absent: bool = False
    if_match: str | None = None


ALWAYS = Condition()


class GdalSource(NamedTuple):
    """What GDAL opens, and the options under which it can open nothing else by network."""

    path: str
    options: dict[str, str]


class Root(Protocol):
    """A zone's place. All raise the errors of `rmhdag.storage.errors`."""

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

    def delete(self, key: str) -> None: ...

    def entries(self, folder: str) -> Iterator[Entry]:
        """All below a folder, at any depth, in the order of their keys."""

    def folders(self, above: str = "") -> Iterator[str]:
        """The names at the first level, or in one folder of it."""

    def gdal_path(self, key: str) -> str: ...

    def gdal_source(self, key: str) -> AbstractContextManager[GdalSource]: ...

    def gdal_options(self, key: str) -> dict[str, str]: ...


def is_usable(name: str, folder: str) -> bool:
    """Whether something found in a folder can be addressed; what cannot is told to whoever reads the log."""
    try:
        check_path(name)
    except ValueError:
        # Not loaded by commands that only read settings.
        from rmhdag.observability.logs import get_logger

        get_logger(__name__).warning("blob_not_listed", folder=folder, name=ascii(name), remedy="rename it")
        return False
    return True
