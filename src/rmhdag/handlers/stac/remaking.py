"""Recreates an item from its remaining files: its COG, and the footprint with the metadata from people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.stac.metadata import FOOTPRINT_SUFFIX, Described, FootprintFile, describe_cog
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import BlobInfo, OutsideStorage, Storage
from rmhdag.storage.media_types import media_type_of

MOST_FOOTPRINT_BYTES = 4 * 1024 * 1024
MOST_CANDIDATES = 10


class Folder(NamedTuple):
    """The files in silver of all items with one id, in several collections and revisions."""

    item_id: str
    place: str
    cogs: dict[BlobAddress, BlobInfo]
    footprints: dict[BlobAddress, FootprintFile]

    @property
    def collections(self) -> list[str]:
        return sorted({note.collection for note in self.footprints.values()})


class Remains(NamedTuple):
    """A COG and its metadata, which belong to one item of one collection."""

    collection_id: str
    item_id: str
    cog: BlobInfo
    note: FootprintFile
    footprint: BlobAddress | None


def folders_in(storage: Storage, container: str) -> Iterator[Folder]:
    """The folders of all items with COGs in a container of silver."""
    files = (info for info in storage.list(Zone.SILVER, container) if info.address.path.count("/") == 1)
    for item_id, inside in groupby(files, key=lambda info: info.address.path.partition("/")[0]):
        yield _folder(storage, container, item_id, inside)


def folder_of(storage: Storage, container: str, item_id: str) -> Folder:
    inside = storage.list(Zone.SILVER, container, f"{item_id}/")
    return _folder(storage, container, item_id, (info for info in inside if info.address.path.count("/") == 1))


def remains_of(storage: Storage, folder: Folder, collection_id: str, item: Mapping[str, Any] | None = None) -> Remains:
    """What the item was made of; `shown` is what can still be read of it, and names its files.

    Raises NonRetryableError if there is nothing, or if files do not tell which of several it was: another collection's
    or another revision's raster would be worse than none.
    """
    cog, footprint = _address_in(storage, item, "data"), _address_in(storage, item, "footprint")
    pairs = [
        Remains(collection_id, folder.item_id, info, note, address)
        for address, note in folder.footprints.items()
        for info in folder.cogs.values()
        if (note.collection == collection_id or address == footprint)
        and (note.data is None or note.data.path == info.address.path)
    ]
    if cog is not None:
        pairs = [pair for pair in pairs if pair.cog.address == cog]
    pairs = [pair for pair in pairs if pair.footprint == footprint] or pairs
    if not pairs and item is not None and cog in folder.cogs:
        pairs = [Remains(collection_id, folder.item_id, folder.cogs[cog], _words_of(item, folder, collection_id), None)]
    # Footprints of earlier versions do not name their COG; they may lie beside others that say the same.
    distinct = {(pair.cog.address, _written(pair.note)): pair for pair in pairs}
    if not distinct:
        raise NonRetryableError(
            f"there is no COG in {folder.place} that is known to belong to the item {folder.item_id!r} of "
            f"{collection_id!r}, to make it again from: process its source again",
            code="RESOURCE_NOT_FOUND",
        )
    if len(distinct) > 1:
        raise NonRetryableError(_several(folder, collection_id, list(distinct.values())), code="VALIDATION_ERROR")
    return distinct.popitem()[1]


def remake(storage: Storage, remains: Remains) -> Described:
    """The item as it was, as far as the files show. Raises NonRetryableError if that is not enough."""
    note, address = remains.note, remains.cog.address
    cog = BlobRef(
        zone=address.zone,
        container=address.container,
        path=address.path,
        size_bytes=remains.cog.size_bytes,
        sha256=storage.sha256(address),
        media_type=media_type_of(address.path),
    )
    if note.data is not None and note.data.sha256 != cog.sha256:
        raise NonRetryableError(
            f"{address} is not the file any more that was described: process its source again", code="VALIDATION_ERROR"
        )
    try:
        words = note.words()
    except ValidationError as error:
        fault = error.errors()[0]["msg"]
        raise NonRetryableError(
            f"what was said about {address} cannot be read: {fault}; register it again", code="VALIDATION_ERROR"
        ) from None
    return describe_cog(
        storage,
        cog,
        collection_id=remains.collection_id,
        item_id=remains.item_id,
        words=words,
        file_time=note.file_time or remains.cog.modified_at,
    )


def _folder(storage: Storage, container: str, item_id: str, inside: Iterator[BlobInfo]) -> Folder:
    cogs, footprints = dict[BlobAddress, BlobInfo](), dict[BlobAddress, FootprintFile]()
    for info in inside:
        if info.address.path.endswith(".tif"):
            cogs[info.address] = info
        elif info.address.path.endswith(FOOTPRINT_SUFFIX):
            note = _read(storage, info.address)
            if note is not None and note.id == item_id:
                footprints[info.address] = note
    return Folder(item_id, f"{Zone.SILVER}/{container}/{item_id}", cogs, footprints)


def _read(storage: Storage, address: BlobAddress) -> FootprintFile | None:
    try:
        return FootprintFile.model_validate_json(storage.read(address, max_bytes=MOST_FOOTPRINT_BYTES))
    except ValidationError:
        return None


def _address_in(storage: Storage, item: Mapping[str, Any] | None, role: str) -> BlobAddress | None:
    """The address in an item that may be damaged in any way."""
    try:
        href = (item or {})["assets"][role]["href"]
        return storage.address_of(href) if isinstance(href, str) else None
    except (KeyError, TypeError, OutsideStorage):
        return None


def _words_of(item: Mapping[str, Any], folder: Folder, collection_id: str) -> FootprintFile:
    """The content of a lost footprint, from the item itself: everything that does not follow from the COG."""
    stored = item.get("properties")
    properties = stored if isinstance(stored, dict) else {}
    words = {key: value for key, value in properties.items() if not key.startswith("proj:")}
    return FootprintFile(id=folder.item_id, collection=collection_id, properties=words, data=None)


def _written(note: FootprintFile) -> bytes:
    return orjson.dumps(note.properties, option=orjson.OPT_SORT_KEYS)


def _several(folder: Folder, collection_id: str, pairs: list[Remains]) -> str:
    names = sorted(pair.cog.address.path + (f" with {pair.footprint.path}" if pair.footprint else "") for pair in pairs)
    more = f" and {len(names) - MOST_CANDIDATES} more" if len(names) > MOST_CANDIDATES else ""
    return (
        f"files do not tell which of these in {folder.place} the item {folder.item_id!r} of {collection_id!r} showed: "
        f"{'; '.join(names[:MOST_CANDIDATES])}{more}. Roll its asset back to the revision that is to be shown, or "
        "submit it again"
    )
