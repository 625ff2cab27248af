"""Stores files of handlers under names that are derived from their content.

A revision never overwrites another's file, and creating the same file again changes nothing.
"""

from __future__ import annotations

import re
from hashlib import file_digest
from pathlib import Path, PurePosixPath

from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import LineageRecord, Zone
from rmhdag.storage import Storage

COGS = "cogs"
WORK = "work"
TIFF = "image/tiff; application=geotiff"
COG = "image/tiff; application=geotiff; profile=cloud-optimized"
HASH_LENGTH = 16
URL_LENGTH = 512


def item_id_of(address: BlobAddress) -> str:
    """The default id: the name of the file, in characters that are safe everywhere."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(address.path).stem).strip("-.")
    return plain[:128] or "item"


def keep_file(storage: Storage, local: Path, container: str, item_id: str, *, media_type: str = TIFF) -> BlobRef:
    """The file becomes visible when it is complete. Equal bytes are found, not written again."""
    with local.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    name = f"{item_id}/{item_id}-{digest[:HASH_LENGTH]}{local.suffix}"
    return storage.upload(local, BlobAddress(Zone.SILVER, container, name), media_type=media_type)


def lineage_from(storage: Storage, *sources: BlobAddress) -> list[LineageRecord]:
    """The sources of a revision. A name that is too long for a record is omitted: it cannot name a revision."""
    urls = (storage.url(address) for address in dict.fromkeys(sources))
    return [LineageRecord(source_url=url) for url in urls if len(url) <= URL_LENGTH]
