"""Names that follow from DDH identifiers: tables, STAC items and collections. The same identifiers, the same name."""

from __future__ import annotations

import re

from rmhdag.models.table_names import MOST_TABLE_CHARACTERS as MOST_TABLE_CHARACTERS
from rmhdag.models.table_names import RESERVED_WORDS as RESERVED_WORDS
from rmhdag.models.table_names import TABLE_NAME as TABLE_NAME
from rmhdag.models.table_names import cut_name, digest
from rmhdag.models.table_names import table_name_fault as table_name_fault
from rmhdag.models.table_names import table_slug as table_slug

DRAFT = "draft"
MOST_STAC_CHARACTERS = 128


def table_name(dataset_id: str, resource_id: str, version_id: str | None) -> str:
    return table_slug(f"{dataset_id}_{resource_id}_{version_id or DRAFT}")


def item_id(dataset_id: str, resource_id: str, version_id: str | None) -> str:
    return stac_slug(f"{dataset_id}-{resource_id}-{version_id or DRAFT}")


def collection_id(dataset_id: str, resource_id: str) -> str:
    return stac_slug(f"{dataset_id}-{resource_id}")


def request_id(dataset_id: str, resource_id: str, version_id: str | None) -> str:
    """The same order is the same request."""
    return digest(f"{dataset_id}|{resource_id}|{version_id or DRAFT}")[:32]


def stac_slug(text: str) -> str:
    """An id of an item or a collection."""
    slug = re.sub(r"-+", "-", re.sub(r"[^a-z0-9-]", "", re.sub(r"[ _]", "-", text.lower()))).strip("-")
    return cut_name(slug or "x", text, MOST_STAC_CHARACTERS, "-")
