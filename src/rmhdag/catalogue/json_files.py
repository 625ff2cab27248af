"""JSON files with concurrent writers: read, decide, write unless another writer was first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import orjson

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage.errors import BlobConflict, BlobNotFound, StorageError
from rmhdag.storage.zones import Storage

MOST_BYTES = 16 * 1024 * 1024
ATTEMPTS = 200
_SAFE_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,119}$")

Document = dict[str, Any]


class FileDamaged(StorageError):
    """A file of the catalogue is not a JSON object."""


class JsonFiles:
    def __init__(self, storage: Storage, zone: Zone, container: str) -> None:
        self._storage = storage
        self._zone = zone
        self._container = container

    def load(self, path: str) -> Document | None:
        try:
            data = self._storage.read(self.address(path), max_bytes=MOST_BYTES)
        except BlobNotFound:
            return None
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise FileDamaged(f"{self.address(path)} is damaged: it is not a JSON object; run stac.rebuild")
        return document

    def change(self, path: str, decide: Callable[[Document | None], Document | None], *, heals: bool = False) -> bool:
        """Whether the file was written. `decide` gets the document and returns the new one; None changes nothing.

        With `heals`, a damaged file counts as missing.
        """
        for _ in range(ATTEMPTS):
            etag = self._etag(path)
            try:
                present = None if etag is None else self.load(path)
            except FileDamaged:
                if not heals:
                    raise
                present = None
            document = decide(present)
            if document is None or document == present:
                return False
            try:
                self._storage.write(
                    self.address(path),
                    written(document),
                    media_type=_media_type(document),
                    if_absent=etag is None,
                    if_match=etag,
                )
            except BlobConflict:
                continue
            return True
        raise StorageError(f"{self.address(path)} has too many concurrent writers: try again later")

    def replace(self, path: str, document: Document) -> None:
        """Overwrite the file, even if it is damaged."""
        self._storage.write(self.address(path), written(document), media_type=_media_type(document))

    def delete(self, path: str) -> None:
        self._storage.delete(self.address(path))

    def paths(self, prefix: str = "") -> Iterator[str]:
        for info in self._storage.list(self._zone, self._container, prefix):
            yield info.address.path

    def address(self, path: str) -> BlobAddress:
        return BlobAddress(self._zone, self._container, path)

    def _etag(self, path: str) -> str | None:
        # Read before the content: a change in between makes the write fail instead of being lost.
        try:
            return self._storage.info(self.address(path)).etag
        except BlobNotFound:
            return None


def written(document: Document) -> bytes:
    """The same document gives the same bytes."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def file_name(identity: str) -> str:
    """A file name for an id: the id itself if every store accepts it, otherwise its safe characters and its hash.

    A name that ends like one of the catalogue's files is not used: a folder must not look like a file.
    """
    if _SAFE_NAME.match(identity) and not identity.endswith((".", ".json")):
        return identity
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", identity).strip(".-")[:80]
    return f"{stem or 'id'}~{sha256(identity.encode()).hexdigest()[:16]}"


def _media_type(document: Document) -> str:
    return "application/geo+json" if document.get("type") == "Feature" else "application/json"
