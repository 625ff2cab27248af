"""The bytes of a file on their way: in pieces, counted and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rmhdag.storage.errors import StorageError
from rmhdag.storage.root import PIECE_BYTES, Root


class Counted:
    """Passes pieces on, and counts and hashes their bytes."""

    def __init__(self, pieces: Iterable[bytes], on_piece: Callable[[int], None] | None = None) -> None:
        self._pieces = pieces
        self._on_piece = on_piece
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.size_bytes += len(piece)
            if self._on_piece is not None:
                self._on_piece(self.size_bytes)
            yield piece

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def drain(self) -> None:
        for _ in self:
            pass

    def checked(self, local: Path, sha256: str) -> Iterator[bytes]:
        """Read the file again; raises an error before the end if it has changed meanwhile."""
        yield from self
        if self.sha256 != sha256:
            raise StorageError(f"{local.name} was changed while it was uploaded: upload it when it is finished")


def hash_of(root: Root, key: str) -> str:
    content = Counted(root.pieces(key))
    content.drain()
    return content.sha256


def file_pieces(local: Path) -> Iterator[bytes]:
    with local.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
