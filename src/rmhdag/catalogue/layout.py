"""Where the files of a static catalogue are and how they link to each other: pure functions on documents.

An item's place is the number of pages above the one that lists it: 0 is its collection's own file, each further page
uses two more digits of the hash of its id.

Every link is relative, so that the catalogue can be moved as a whole; therefore nothing has a link `self`, which STAC
requires to be absolute. Links to files in neighbouring zones are relative too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from rmhdag.catalogue.extents import unknown_extent
from rmhdag.catalogue.json_files import Document, file_name, written

STAC_VERSION = "1.1.0"
VERSION_KEY = "rmhdag:version"
REMOVED = "Removed"
# The version of a collection that an item created; any version of the collection itself is newer.
UNTOLD = -1
JSON = "application/json"
GEOJSON = "application/geo+json"
_STRUCTURAL = frozenset({"root", "parent", "self", "collection", "item", "child"})
_DIGITS = 2


def collection_path(collection_id: str) -> str:
    return f"{file_name(collection_id)}/collection.json"


def item_path(collection_id: str, item_id: str) -> str:
    return f"{file_name(collection_id)}/items/{file_name(item_id)}.json"


def page_path(collection_id: str, item_id: str, place: int) -> str:
    if place == 0:
        return collection_path(collection_id)
    return f"{file_name(collection_id)}/pages/{'/'.join(_steps(item_id, place))}.json"


def item_href(item_id: str, place: int) -> str:
    """The link from the page at that place."""
    return f"{'../' * place or './'}items/{file_name(item_id)}.json"


def child_href(item_id: str, place: int) -> str:
    """The link from the page at that place to the one below it."""
    steps = _steps(item_id, place + 1)
    return f"./pages/{steps[0]}.json" if place == 0 else f"./{steps[-2]}/{steps[-1]}.json"


def item_links(item: Mapping[str, Any]) -> list[Document]:
    return [
        link("root", "../../catalog.json"),
        link("parent", "../collection.json"),
        link("collection", "../collection.json"),
        *_other_links(item),
    ]


def collection_links(collection: Mapping[str, Any], listed: list[Document]) -> list[Document]:
    """All links, including those to items and pages."""
    fixed = [link("root", "../catalog.json"), link("parent", "../catalog.json")]
    return sorted_links([*fixed, *_other_links(collection), *listed])


def listing_links(page: Mapping[str, Any]) -> list[Document]:
    return [link for link in page.get("links", []) if link.get("rel") in ("item", "child")]


def empty_root(title: str) -> Document:
    return {
        "type": "Catalog",
        "id": title,
        "title": title,
        "description": f"Everything that {title} has published",
        "stac_version": STAC_VERSION,
        "links": [link("root", "./catalog.json")],
    }


def empty_page(collection_id: str, item_id: str, place: int) -> Document:
    if place == 0:
        return untold_collection(collection_id)
    digits = "".join(_steps(item_id, place))
    parent = "../collection.json" if place == 1 else f"../{_steps(item_id, place)[-2]}.json"
    return {
        "type": "Catalog",
        "id": f"{collection_id}-{digits}",
        "description": f"Items of {collection_id} whose hashed id begins with {digits}",
        "stac_version": STAC_VERSION,
        "links": [link("root", f"{'../' * (place + 1)}catalog.json"), link("parent", parent)],
    }


def untold_collection(collection_id: str) -> Document:
    """A minimal collection, used until the real one is published."""
    collection = {
        "type": "Collection",
        "id": collection_id,
        "description": collection_id,
        "license": "other",
        "stac_version": STAC_VERSION,
        "extent": unknown_extent(),
        VERSION_KEY: UNTOLD,
    }
    return {**collection, "links": collection_links(collection, [])}


def link(rel: str, href: str, media_type: str = JSON) -> Document:
    return {"rel": rel, "href": href, "type": media_type}


def has_link(page: Mapping[str, Any], rel: str, href: str) -> bool:
    return any(link.get("rel") == rel and link.get("href") == href for link in page.get("links", []))


def count_items(page: Mapping[str, Any]) -> int:
    return sum(link.get("rel") == "item" for link in page.get("links", []))


def with_link(page: Document, rel: str, href: str) -> Document:
    if has_link(page, rel, href):
        return page
    added = link(rel, href, GEOJSON if rel == "item" else JSON)
    return {**page, "links": sorted_links([*page.get("links", []), added])}


def without_link(page: Document, rel: str, href: str) -> Document:
    links = [link for link in page.get("links", []) if (link.get("rel"), link.get("href")) != (rel, href)]
    return {**page, "links": links}


def with_hrefs(item: Document, change: Callable[[str], str]) -> Document:
    """The item with new addresses of its files. The item may be damaged in any way."""
    assets = item.get("assets")
    if not isinstance(assets, dict):
        return item
    changed = {
        role: {**asset, "href": change(asset["href"])}
        if isinstance(asset, dict) and isinstance(asset.get("href"), str)
        else asset
        for role, asset in assets.items()
    }
    return {**item, "assets": changed}


def sorted_links(links: list[Document]) -> list[Document]:
    """Fixed links first, then pages, then items by address: independent of the order of the writers."""
    order = {"child": 1, "item": 2}
    return sorted(links, key=lambda link: (order.get(link["rel"], 0), link["href"] if link["rel"] in order else ""))


def rank(document: Mapping[str, Any]) -> tuple[int, bool, bytes]:
    """Decides which document wins: the higher version; at equal versions a removal, otherwise the greater content."""
    return document.get(VERSION_KEY, 0), document.get("type") == REMOVED, written(dict(document))


def item_fault(path: str, item: Mapping[str, Any] | None) -> str | None:
    """Why a file cannot be listed as an item; None if it can."""
    if item is None:
        return f"{path} is damaged: it is not a JSON object"
    if item.get("type") != "Feature" or not isinstance(item.get("id"), str):
        return f"{path} is not a STAC item"
    if path.rpartition("/")[2] != f"{file_name(item['id'])}.json":
        return f"{path} contains the item {item['id']!r}, whose file has another name"
    return None


def _other_links(document: Mapping[str, Any]) -> list[Document]:
    return [dict(link) for link in document.get("links", []) if link.get("rel") not in _STRUCTURAL]


def _steps(item_id: str, place: int) -> list[str]:
    digits = sha256(item_id.encode()).hexdigest()
    return [digits[at : at + _DIGITS] for at in range(0, place * _DIGITS, _DIGITS)]
