"""Where the files of a static catalogue lie and how they name each other: pure functions on documents.

An item's place says how many pages lie above the one that lists it: 0 is its collection's own file, each further one
goes by two more digits of the hash of its id.

Every link is relative, so that the catalogue may be moved as a whole; that is why nothing has a link `self`, which STAC
wants absolute. So are the addresses of files that lie in zones beside the catalogue's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from rmhdag.storage.json_files import Document, file_name, written
from rmhdag.storage.stac_extents import unknown_extent

STAC_VERSION = "1.1.0"
VERSION_KEY = "rmhdag:version"
REMOVED = "Removed"
# Of a collection made by an item that came first; whatever version the collection has, it is newer.
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
    """From the page at that place."""
    return f"{'../' * place or './'}items/{file_name(item_id)}.json"


def child_href(item_id: str, place: int) -> str:
    """From the page at that place to the one below it."""
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
    """With those that list items and pages."""
    fixed = [link("root", "../catalog.json"), link("parent", "../catalog.json")]
    return sorted_links([*fixed, *_other_links(collection), *listed])


def listing_links(page: Mapping[str, Any]) -> list[Document]:
    return [one for one in page.get("links", []) if one.get("rel") in ("item", "child")]


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
    """Until somebody tells more about it."""
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
    return any(one.get("rel") == rel and one.get("href") == href for one in page.get("links", []))


def count_items(page: Mapping[str, Any]) -> int:
    return sum(one.get("rel") == "item" for one in page.get("links", []))


def with_link(page: Document, rel: str, href: str) -> Document:
    if has_link(page, rel, href):
        return page
    added = link(rel, href, GEOJSON if rel == "item" else JSON)
    return {**page, "links": sorted_links([*page.get("links", []), added])}


def without_link(page: Document, rel: str, href: str) -> Document:
    kept = [one for one in page.get("links", []) if (one.get("rel"), one.get("href")) != (rel, href)]
    return {**page, "links": kept}


def with_hrefs(item: Document, change: Callable[[str], str]) -> Document:
    """With other addresses of its files. An item may be damaged in any way."""
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
    """The fixed ones first, then pages, then items by their address: the same whoever came first."""
    order = {"child": 1, "item": 2}
    return sorted(links, key=lambda one: (order.get(one["rel"], 0), one["href"] if one["rel"] in order else ""))


def rank(document: Mapping[str, Any]) -> tuple[int, bool, bytes]:
    """Who stays: the higher version; at equal versions what was removed, else the greater content."""
    return document.get(VERSION_KEY, 0), document.get("type") == REMOVED, written(dict(document))


def item_fault(path: str, item: Mapping[str, Any] | None) -> str | None:
    """Why a file cannot be listed as an item."""
    if item is None:
        return f"{path} is damaged: it holds no JSON object"
    if item.get("type") != "Feature" or not isinstance(item.get("id"), str):
        return f"{path} is no STAC item"
    if path.rpartition("/")[2] != f"{file_name(item['id'])}.json":
        return f"{path} holds the item {item['id']!r}, whose file has another name"
    return None


def _other_links(document: Mapping[str, Any]) -> list[Document]:
    return [dict(one) for one in document.get("links", []) if one.get("rel") not in _STRUCTURAL]


def _steps(item_id: str, place: int) -> list[str]:
    digits = sha256(item_id.encode()).hexdigest()
    return [digits[at : at + _DIGITS] for at in range(0, place * _DIGITS, _DIGITS)]
