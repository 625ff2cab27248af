"""Blob storage as one namespace sees it: three zones with containers of files, in any kind of store.

Every address is checked here, on every call, before it reaches a store, and is mapped to the namespace's own place.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from rmhdag.models.blobs import BlobAddress, BlobRef, check_container, check_path
from rmhdag.models.records import Zone
from rmhdag.storage.contents import Counted, file_pieces, hash_of
from rmhdag.storage.errors import BlobConflict, BlobNotFound, OutsideStorage, StorageError
from rmhdag.storage.gdal import CLOSED
from rmhdag.storage.local import LocalRoot, write_all
from rmhdag.storage.media_types import media_type_of
from rmhdag.storage.namespaces import NamespaceView
from rmhdag.storage.root import ALWAYS, Condition, GdalSource, Head, Root
from rmhdag.storage.settings import StorageSettings

MOST_CHARACTERS = 1024
MOST_CONTAINER_CHARACTERS = 64
READ_BYTES = 64 * 1024 * 1024


class BlobInfo(NamedTuple):
    """A blob in a listing; `etag` changes with its content."""

    address: BlobAddress
    size_bytes: int
    etag: str
    modified_at: datetime


class FolderListing(NamedTuple):
    """`is_complete` is False if the folder has more than are listed."""

    files: list[BlobInfo]
    folders: list[str]
    is_complete: bool


class Storage:
    """Methods may be called from several threads; they raise StorageError or a subclass.

    `before_write` is called before anything is written or deleted, and again before a write becomes visible; an
    exception from it prevents that.
    """

    def __init__(
        self, roots: dict[Zone, Root], view: NamespaceView, before_write: Callable[[], None] | None = None
    ) -> None:
        self._roots = roots
        self._view = view
        self._before_write = before_write or _nothing

    def info(self, address: BlobAddress) -> BlobInfo:
        """Size, etag and time of change, or BlobNotFound."""
        root, key = self._find(address)
        return info_of(address, root.head(key))

    def exists(self, address: BlobAddress) -> bool:
        """Whether there is a blob at this address."""
        try:
            self.info(address)
        except BlobNotFound:
            return False
        return True

    def list(self, zone: Zone, container: str, prefix: str = "") -> Iterator[BlobInfo]:
        """The blobs of a container whose path begins with the prefix, in the order of their paths."""
        root = self._root(zone)
        home = folder = self._view.place(Zone(zone), checked_container(container)).folder
        above, slash, _ = prefix.rpartition("/")
        if slash:
            folder = f"{folder}/{checked_path(above)}"
        for key, head in root.entries(folder):
            path = key[len(home) + 1 :]
            if path.startswith(prefix):
                yield info_of(BlobAddress(Zone(zone), container, path), head)

    def folder(self, zone: Zone, container: str, path: str = "", *, most: int = 1_000) -> FolderListing:
        """The files and folders in one folder of a container, not below it; at most so many of each."""
        home = folder = self._view.place(Zone(zone), checked_container(container)).folder
        if path:
            folder = f"{folder}/{checked_path(path)}"
        level = self._root(zone).level(folder, most)
        files = [
            info_of(BlobAddress(Zone(zone), container, entry.key[len(home) + 1 :]), entry.head) for entry in level.files
        ]
        return FolderListing(files, level.folders, level.is_complete)

    def containers(self, zone: Zone) -> tuple[str, ...]:
        """The containers of a zone that are not empty, and those shared with the namespace."""
        names = {name for name in self._root(zone).folders(self._view.home) if not self._view.is_reserved(name)}
        return tuple(sorted(names.union(self._view.shared_in(zone))))

    def read(self, address: BlobAddress, max_bytes: int = READ_BYTES) -> bytes:
        """The whole content; a blob with more than `max_bytes` is an error and is not loaded."""
        root, key = self._find(address)
        content = bytearray()
        for piece in root.pieces(key):
            content += piece
            if len(content) > max_bytes:
                raise StorageError(f"{address} has more than {max_bytes} bytes: read it in pieces, or download it")
        return bytes(content)

    def read_range(self, address: BlobAddress, offset: int, length: int) -> bytes:
        """Part of the content; shorter than `length` at the end of the blob."""
        root, key = self._find(address)
        return root.read_range(key, offset, min(length, READ_BYTES))

    def write(
        self,
        address: BlobAddress,
        data: bytes,
        *,
        media_type: str | None = None,
        if_absent: bool = False,
        if_match: str | None = None,
    ) -> BlobRef:
        """Write bytes as a blob. `if_absent` and `if_match` (an etag) raise BlobConflict if another was first."""
        root, key = self._find_writable(address)
        sha256 = hashlib.sha256(data).hexdigest()
        media_type = media_type or media_type_of(address.path)
        self._before_write()
        root.write(
            key,
            self._allowed([data] if data else []),
            size_bytes=len(data),
            sha256=sha256,
            media_type=media_type,
            condition=Condition(if_absent, if_match),
        )
        return ref_of(address, len(data), sha256, media_type)

    def upload(
        self,
        local: Path,
        address: BlobAddress,
        *,
        media_type: str | None = None,
        if_absent: bool = False,
        on_piece: Callable[[int], None] | None = None,
        sha256: str | None = None,
    ) -> BlobRef:
        """Copy a local file to storage. `sha256` is its hash, if the caller knows it; another content is an error.

        If the same bytes already exist there, nothing is written. `if_absent` raises
        BlobConflict if other bytes exist; above READ_BYTES this is checked only before the upload, because object
        stores accept a condition only for a single piece. `on_piece` is called with the number of bytes of each piece.
        """
        root, key = self._find_writable(address)
        if sha256 is None:
            first = Counted(file_pieces(local))
            first.drain()
            size_bytes, sha256 = first.size_bytes, first.sha256
        else:
            size_bytes = local.stat().st_size
        media_type = media_type or media_type_of(address.path)
        ref = ref_of(address, size_bytes, sha256, media_type)
        if self._holds(root, key, ref):
            return ref
        if if_absent and self.exists(address):
            raise BlobConflict(f"{address} exists with another content")
        second = Counted(file_pieces(local), on_piece)
        self._before_write()
        root.write(
            key,
            self._allowed(second.checked(local, sha256)),
            size_bytes=size_bytes,
            sha256=sha256,
            media_type=media_type,
            condition=Condition(if_absent and size_bytes <= READ_BYTES, None),
        )
        return ref

    def move(self, local: Path, address: BlobAddress, *, sha256: str, media_type: str | None = None) -> BlobRef:
        """Like `upload`, for a finished file that only the caller has: storage may take it without copying it. The
        local file is gone afterwards.
        """
        root, key = self._find_writable(address)
        media_type = media_type or media_type_of(address.path)
        ref = ref_of(address, local.stat().st_size, sha256, media_type)
        if not self._holds(root, key, ref):
            self._before_write()
            if root.take(key, local, self._before_write):
                return ref
            self.upload(local, address, media_type=media_type, sha256=sha256)
        local.unlink()
        return ref

    def download(self, address: BlobAddress, local: Path, *, on_piece: Callable[[int], None] | None = None) -> BlobRef:
        """Copy a blob to a local file, which is complete when it appears. `on_piece` is called with the number of bytes
        of each piece.
        """
        root, key = self._find(address)
        content = Counted(root.pieces(key), on_piece)
        part = local.with_name(f".{secrets.token_hex(8)}.part")
        try:
            # The next piece is read and hashed while this one is written: hashing takes as long as writing.
            with part.open("xb", buffering=0) as file, ThreadPoolExecutor(1) as pool:
                written: Future[None] | None = None
                for piece in content:
                    if written is not None:
                        written.result()
                    written = pool.submit(write_all, file.fileno(), piece)
                if written is not None:
                    written.result()
            part.replace(local)
        finally:
            part.unlink(missing_ok=True)
        return ref_of(address, content.size_bytes, content.sha256, media_type_of(address.path))

    def copy(self, source: BlobAddress, target: BlobAddress) -> BlobRef:
        """Copy a blob from any zone to any other, piece by piece."""
        source_root, source_key = self._find(source)
        root, key = self._find_writable(target)
        head = source_root.head(source_key)
        content = Counted(source_root.pieces(source_key))
        media_type = media_type_of(target.path)
        self._before_write()
        root.write(
            key,
            self._allowed(content),
            size_bytes=head.size_bytes,
            sha256=head.sha256,
            media_type=media_type,
            condition=ALWAYS,
        )
        return ref_of(target, content.size_bytes, content.sha256, media_type)

    def sha256(self, address: BlobAddress) -> str:
        """The hash of the content in hexadecimal digits; computed from the content if the store does not keep it."""
        root, key = self._find(address)
        return root.head(key).sha256 or hash_of(root, key)

    def delete(self, address: BlobAddress) -> None:
        """Delete a blob. Deleting a missing blob is not an error, so the call can be repeated."""
        root, key = self._find_writable(address)
        self._before_write()
        try:
            root.delete(key)
        except BlobNotFound:
            return

    def url(self, address: BlobAddress) -> str:
        """The URL of the blob, without credentials."""
        root, key = self._find(address)
        return f"{root.url}/{quote(key)}"

    def address_of(self, url: str) -> BlobAddress:
        """The address of a URL that `url` returned for this namespace, or OutsideStorage."""
        for zone, root in self._roots.items():
            if url.startswith(root.url + "/"):
                key = "/".join(unquote(segment) for segment in url[len(root.url) + 1 :].split("/"))
                address = BlobAddress(zone, *self._view.split(zone, key))
                # With another spelling, a browser might request another file.
                if self.url(address) == url:
                    return address
        raise OutsideStorage("this URL is in none of the configured zones")

    def owns(self, url: str) -> bool:
        """Whether this is the URL of a file that this namespace may use."""
        try:
            self.address_of(url)
        except OutsideStorage:
            return False
        return True

    def href_beside(self, url: str, beside: BlobAddress) -> str:
        """A URL of `url` as a relative link from another blob, so that the zones can be moved together. A URL outside
        storage stays unchanged, and so does one in a zone that is not next to the other's.
        """
        try:
            target = self.address_of(url)
        except OutsideStorage:
            return url
        home, other = self._home(beside.zone), self._home(target.zone)
        if home is None or home != other:
            return url
        folder = self.url(beside)[len(home) :].rpartition("/")[0]
        return posixpath.relpath(url[len(home) :], folder)

    def url_beside(self, href: str, beside: BlobAddress) -> str:
        """The reverse: a link from one blob to another in storage, as a URL; other text stays unchanged."""
        home = self._home(beside.zone)
        if home is None or ":" in href or href.startswith("/"):
            return href
        folder = self.url(beside)[len(home) :].rpartition("/")[0]
        url = home + posixpath.normpath(f"{folder}/{href}")
        try:
            self.address_of(url)
        except OutsideStorage:
            return href
        return url

    def gdal_path(self, address: BlobAddress) -> str:
        """The path that GDAL opens. `gdal_source` is safer if others may write: its file cannot be swapped."""
        root, key = self._find(address)
        return root.gdal_path(key)

    def gdal_options(self, address: BlobAddress | None = None) -> dict[str, str]:
        """Options with which GDAL reads this blob; without an address, options that block all network access."""
        if address is None:
            return dict(CLOSED)
        root, key = self._find(address)
        return root.gdal_options(key)

    def gdal_source(self, address: BlobAddress) -> AbstractContextManager[GdalSource]:
        """A path to exactly this blob while the context lasts, and options that allow only this blob."""
        root, key = self._find(address)
        return root.gdal_source(key)

    def _home(self, zone: Zone) -> str | None:
        """The folder around a zone's root; None for a bucket or container, which has none that could be moved."""
        home = self._root(zone).url.rpartition("/")[0]
        return None if home.endswith(":/") else home

    def _root(self, zone: Zone) -> Root:
        root = self._roots.get(zone)
        if root is None:
            raise StorageError(
                f"there is no storage for the zone {zone}: set RMHDAG_STORAGE, or RMHDAG_STORAGE_{zone.upper()}"
            )
        return root

    def _find(self, address: BlobAddress) -> tuple[Root, str]:
        zone, container, path = address
        place = self._view.place(Zone(zone), checked_container(container))
        return self._root(zone), f"{place.folder}/{checked_path(path)}"

    def _find_writable(self, address: BlobAddress) -> tuple[Root, str]:
        zone, container, _ = address
        if not self._view.place(Zone(zone), checked_container(container)).writable:
            raise StorageError(
                f"the container {zone}/{container} is shared with the namespace {self._view.namespace!r} for reading "
                "only: write to another container"
            )
        return self._find(address)

    def _allowed(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces; a store makes a blob visible only after the last of them."""
        yield from pieces
        self._before_write()

    def _holds(self, root: Root, key: str, ref: BlobRef) -> bool:
        try:
            head = root.head(key)
            return head.size_bytes == ref.size_bytes and (head.sha256 or hash_of(root, key)) == ref.sha256
        except BlobNotFound:
            return False


def _nothing() -> None:
    """Allows every write."""


def open_storage(settings: StorageSettings, namespace: str, before_write: Callable[[], None] | None = None) -> Storage:
    """The storage of one namespace. Accesses nothing yet; errors in the settings are raised at once."""
    roots = {zone: open_root(zone, url, settings) for zone in Zone if (url := settings.url_of(zone)) is not None}
    for zone, root in roots.items():
        for other, beside in roots.items():
            if zone != other and f"{beside.url}/".startswith(f"{root.url}/"):
                raise StorageError(f"the zones {zone} and {other} are nested: give each its own place")
    return Storage(roots, settings.view_of(namespace), before_write)


def open_root(zone: Zone, url: str, settings: StorageSettings) -> Root:
    if url.startswith("/"):
        return LocalRoot(Path(url))
    parts = urlsplit(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise StorageError(
            f"the storage URL of {zone} has credentials or a query: give these by RMHDAG_STORAGE_OPTIONS"
        )
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return LocalRoot(Path(unquote(parts.path)))
    if parts.scheme in ("az", "s3"):
        # Not loaded if all files are in folders.
        from rmhdag.storage.objects import open_azure, open_s3

        options = settings.options_of(zone)
        return open_azure(url, options) if parts.scheme == "az" else open_s3(url, options)
    raise StorageError(f"the storage URL of {zone} is not understood: use file://, az:// or s3://")


def checked_container(container: str) -> str:
    try:
        if len(container) > MOST_CONTAINER_CHARACTERS:
            raise ValueError(f"the name has more than {MOST_CONTAINER_CHARACTERS} characters: shorten it")
        return check_container(container)
    except ValueError as error:
        raise OutsideStorage(f"container {shown(container)}: {error}") from None


def checked_path(path: str) -> str:
    try:
        if len(path) > MOST_CHARACTERS:
            raise ValueError(f"the path has more than {MOST_CHARACTERS} characters: shorten it")
        return check_path(path)
    except ValueError as error:
        raise OutsideStorage(f"blob {shown(path)}: {error}") from None


def shown(name: str) -> str:
    """A name for a message: on one line, and not too long."""
    text = json.dumps(name, ensure_ascii=False)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


def info_of(address: BlobAddress, head: Head) -> BlobInfo:
    return BlobInfo(address, head.size_bytes, head.etag, head.modified_at)


def ref_of(address: BlobAddress, size_bytes: int, sha256: str, media_type: str) -> BlobRef:
    return BlobRef(
        zone=address.zone,
        container=address.container,
        path=address.path,
        size_bytes=size_bytes,
        sha256=sha256,
        media_type=media_type,
    )
