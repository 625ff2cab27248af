"""An item made again from the files that are left of it: its COG, and the footprint that knows what people said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import ValidationError

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.stac.items import ItemWords
from rmhdag.handlers.stac.metadata import FOOTPRINT_SUFFIX, Described, FootprintFile, describe_cog
from rmhdag.models.blobs import BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import BlobInfo, Storage
from rmhdag.storage.zones import media_type_of

MOST_FOOTPRINT_BYTES = 4 * 1024 * 1024


class Remains(NamedTuple):
    """The newest COG of an item, and the newest footprint, if it has one that can be read."""

    item_id: str
    cog: BlobInfo
    footprint: FootprintFile | None


def remains_in(storage: Storage, container: str, item_id: str | None = None) -> Iterator[Remains]:
    """Of all items whose COGs lie in a container of silver, in folders named after them; or of one."""
    folder, cog, note = "", None, None
    for info in storage.list(Zone.SILVER, container, f"{item_id}/" if item_id else ""):
        above, slash, name = info.address.path.partition("/")
        if not slash or "/" in name:
            continue
        if above != folder:
            if cog is not None:
                yield Remains(folder, cog, _read(storage, note))
            folder, cog, note = above, None, None
        if name.endswith(".tif") and (cog is None or info.modified_at > cog.modified_at):
            cog = info
        if name.endswith(FOOTPRINT_SUFFIX) and (note is None or info.modified_at > note.modified_at):
            note = info
    if cog is not None:
        yield Remains(folder, cog, _read(storage, note))


def remake(storage: Storage, remains: Remains, collection_id: str | None) -> Described:
    """The item as it was, as far as the files can tell. Raises NonRetryableError if that is not enough."""
    note, address = remains.footprint, remains.cog.address
    chosen = note.collection if note is not None else collection_id
    if chosen is None:
        raise NonRetryableError(
            f"{address} has no footprint beside it that names its collection: give `collection_id`, or register it"
        )
    cog = BlobRef(
        zone=address.zone,
        container=address.container,
        path=address.path,
        size_bytes=remains.cog.size_bytes,
        sha256=storage.sha256(address),
        media_type=media_type_of(address.path),
    )
    return describe_cog(
        storage,
        cog,
        collection_id=chosen,
        item_id=remains.item_id,
        words=ItemWords() if note is None else note.words(),
        file_time=(note and note.file_time) or remains.cog.modified_at,
    )


def _read(storage: Storage, info: BlobInfo | None) -> FootprintFile | None:
    if info is None:
        return None
    try:
        return FootprintFile.model_validate_json(storage.read(info.address, max_bytes=MOST_FOOTPRINT_BYTES))
    except ValidationError:
        return None
