"""Published files by the names that the catalogue gives them: collection, item, asset. Nothing else can be reached."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from psycopg_pool import ConnectionPool

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.namespaces import DEFAULT, RESERVED, home_of
from rmhdag.storage import Storage, StorageError, StorageSettings, open_storage
from rmhdag.storage.media_types import media_type_of

# So long an item that was unpublished may still be given out.
KEEP_SECONDS = 2.0
MOST_KEPT = 512
# Namespaces are in the names that anybody may ask for, so any number of them.
MOST_STORAGES = 64
CONNECT_SECONDS = 5.0
FIND_ITEM = "SELECT pgstac.get_item(%s, %s)"

FindItem = Callable[[str, str], Mapping[str, Any] | None]


class PublishedFile(NamedTuple):
    storage: Storage
    address: BlobAddress
    size_bytes: int
    etag: str
    media_type: str


class PublishedFiles:
    """May be called from several threads. `find_item` knows the catalogue: a collection's id and an item's id go in."""

    def __init__(self, settings: StorageSettings, find_item: FindItem | None = None) -> None:
        self._settings = settings
        self._find_item = find_item or self._find_in_files
        self._storage = lru_cache(MOST_STORAGES)(self._open_storage)
        self._kept: OrderedDict[tuple[str, str, str], tuple[float, PublishedFile | None]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, collection_id: str, item_id: str, asset: str) -> PublishedFile | None:
        """None if no such asset is published, or if it is not a file of the collection's namespace in storage.
        Raises StorageError if storage does not answer.
        """
        key = (collection_id, item_id, asset)
        with self._lock:
            entry = self._kept.get(key)
        if entry is not None and time.monotonic() - entry[0] < KEEP_SECONDS:
            return entry[1]
        file = self._look_up(*key)
        with self._lock:
            self._kept[key] = (time.monotonic(), file)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return file

    def _look_up(self, collection_id: str, item_id: str, asset: str) -> PublishedFile | None:
        namespace = namespace_of(collection_id)
        item = None if namespace is None else self._find_item(collection_id, item_id)
        entry = ((item or {}).get("assets") or {}).get(asset)
        if namespace is None or not isinstance(entry, Mapping) or not isinstance(entry.get("href"), str):
            return None
        storage = self._storage(namespace)
        if not storage.owns(entry["href"]):
            return None
        address = storage.address_of(entry["href"])
        info = storage.info(address)
        media_type = str(entry.get("type"))
        if not is_media_type(media_type):
            media_type = media_type_of(address.path)
        return PublishedFile(storage, address, info.size_bytes, info.etag, media_type)

    def _find_in_files(self, collection_id: str, item_id: str) -> Mapping[str, Any] | None:
        namespace = namespace_of(collection_id)
        if namespace is None:
            return None
        plain = collection_id.removeprefix(f"{home_of(namespace)}:") if namespace != DEFAULT else collection_id
        return StaticCatalogue(self._storage(namespace)).find_item(plain, item_id)

    def _open_storage(self, namespace: str) -> Storage:
        if not self._settings.is_given:
            raise StorageError("no blob storage is configured: set RMHDAG_STORAGE")
        return open_storage(self._settings, namespace)


def namespace_of(collection_id: str) -> str | None:
    """Ids of collections of other namespaces begin with `namespace-<name>:`. None if the name cannot be read from it:
    that of a namespace with unusual letters is a hash.
    """
    home, colon, _ = collection_id.partition(":")
    if not colon or not home.startswith(RESERVED):
        return DEFAULT
    namespace = home.removeprefix(RESERVED)
    return namespace if home_of(namespace) == home else None


def is_media_type(text: str) -> bool:
    """Fit for a header; nothing that a browser would run."""
    is_known = text.startswith(("image/tiff", "image/png", "image/webp", "image/jpeg", "application/geo+json"))
    return is_known and text.isascii() and text.isprintable()


class PgstacItems:
    """Items of pgSTAC, read with the role of the STAC API."""

    def __init__(self, dsn: str) -> None:
        self._pool = ConnectionPool(
            dsn, min_size=0, max_size=4, timeout=CONNECT_SECONDS, kwargs={"autocommit": True}, open=True
        )

    def find(self, collection_id: str, item_id: str) -> Mapping[str, Any] | None:
        with self._pool.connection() as conn:
            row = conn.execute(FIND_ITEM, [item_id, collection_id]).fetchone()
        return row[0] if row else None

    def close(self) -> None:
        self._pool.close()
