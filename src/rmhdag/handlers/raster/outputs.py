"""Files that handlers have made, kept under names that follow from their content.

A revision never overwrites another's file, and making the same again changes nothing.
"""

from __future__ import annotations

import re
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import StringConstraints

from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import LineageRecord, Zone
from rmhdag.storage import Storage

COGS = "cogs"
WORK = "work"
TIFF = "image/tiff; application=geotiff"
COG = "image/tiff; application=geotiff; profile=cloud-optimized"
HASH_LENGTH = 16
URL_LENGTH = 512

ItemId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")]


def item_id_of(address: BlobAddress) -> str:
    """For who names none: that of the file, in letters that are safe everywhere."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(address.path).stem).strip("-.")
    return plain[:128] or "item"


def keep_file(storage: Storage, local: Path, container: str, item_id: str, *, media_type: str = TIFF) -> BlobRef:
    """Nobody sees it before it is whole. The same bytes again are found, not written."""
    with local.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    name = f"{item_id}/{item_id}-{digest[:HASH_LENGTH]}{local.suffix}"
    return storage.upload(local, BlobAddress(Zone.SILVER, container, name), media_type=media_type)


def lineage_from(storage: Storage, *sources: BlobAddress) -> list[LineageRecord]:
    """What a revision was made from. A name that is too long for a record is left out: it names no revision anyway."""
    urls = (storage.url(address) for address in dict.fromkeys(sources))
    return [LineageRecord(source_url=url) for url in urls if len(url) <= URL_LENGTH]
