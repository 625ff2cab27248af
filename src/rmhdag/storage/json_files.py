"""JSON files in a container that several writers change at once: read, decide, write if nobody else has written."""

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
    """A file of the catalogue is no JSON object."""


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
            raise FileDamaged(f"{self.address(path)} is damaged: it holds no JSON object; run stac.rebuild")
        return document

    def change(self, path: str, decide: Callable[[Document | None], Document | None], *, heals: bool = False) -> bool:
        """Whether the file was written. `decide` gets what is there and says what shall be; None leaves it.

        With `heals` a damaged file counts as none.
        """
        for _ in range(ATTEMPTS):
            etag = self._etag(path)
            try:
                present = None if etag is None else self.load(path)
            except FileDamaged:
                if not heals:
                    raise
                present = None
            wanted = decide(present)
            if wanted is None or wanted == present:
                return False
            try:
                self._storage.write(
                    self.address(path),
                    written(wanted),
                    media_type=_media_type(wanted),
                    if_absent=etag is None,
                    if_match=etag,
                )
            except BlobConflict:
                continue
            return True
        raise StorageError(f"{self.address(path)} is changed by too many at once: try again later")

    def replace(self, path: str, document: Document) -> None:
        """Whatever is there, even if it is damaged."""
        self._storage.write(self.address(path), written(document), media_type=_media_type(document))

    def delete(self, path: str) -> None:
        self._storage.delete(self.address(path))

    def paths(self, prefix: str = "") -> Iterator[str]:
        for info in self._storage.list(self._zone, self._container, prefix):
            yield info.address.path

    def address(self, path: str) -> BlobAddress:
        return BlobAddress(self._zone, self._container, path)

    def _etag(self, path: str) -> str | None:
        # Taken before the content is read: a change in between makes the write fail, never get lost.
        try:
            return self._storage.info(self.address(path)).etag
        except BlobNotFound:
            return None


def written(document: Document) -> bytes:
    """The same document gives the same bytes."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def file_name(identity: str) -> str:
    """A name for an id: the id itself where every store takes it, else what is left of it and its hash.

    What ends like a file of ours is no name for a folder beside these.
    """
    if _SAFE_NAME.match(identity) and not identity.endswith((".", ".json")):
        return identity
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", identity).strip(".-")[:80]
    return f"{kept or 'id'}~{sha256(identity.encode()).hexdigest()[:16]}"


def _media_type(document: Document) -> str:
    return "application/geo+json" if document.get("type") == "Feature" else "application/json"
