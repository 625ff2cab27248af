"""A static STAC catalogue: JSON files with relative links, in a container of blob storage.

Hides how links stay correct although several writers work concurrently, in any order, may repeat their work, and may
be killed between any two files. The file of an item is the truth about that item; links are corrected to match it. No
file grows with the collection: one lists at most `page_links` items, the others are in pages below it.

    catalog.json
    <collection>/collection.json
    <collection>/items/<item>.json
    <collection>/pages/<2 hex digits>.json, pages/<2 hex digits>/<2 hex digits>.json, …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from rmhdag.catalogue import layout
from rmhdag.catalogue.extents import extent_of_item, merged_summaries, united, united_summaries, unknown_extent
from rmhdag.catalogue.json_files import ATTEMPTS, Document, FileDamaged, JsonFiles, file_name
from rmhdag.models.records import Zone
from rmhdag.storage.errors import StorageError
from rmhdag.storage.zones import Storage

CONTAINER = "catalogue"
PAGE_LINKS = 256
ROOT = "catalog.json"


class Rebuilt(NamedTuple):
    collections: int
    items: int
    problems: tuple[str, ...]


class _Seen(NamedTuple):
    """Pages by their place: those that list an item, the first with room for it, those without a link to the next."""

    listed: list[int]
    room: int
    leading_nowhere: list[int]


class StaticCatalogue:
    """All methods may be called concurrently by several processes, and repeated after an interruption."""

    def __init__(
        self,
        storage: Storage,
        *,
        zone: Zone = Zone.GOLD,
        container: str = CONTAINER,
        title: str = "rmhdag",
        page_links: int = PAGE_LINKS,
    ) -> None:
        self._storage = storage
        self._files = JsonFiles(storage, zone, container)
        self._title = title
        self._page_links = page_links

    def put_collection(self, collection: Mapping[str, Any], *, version: int | None = None) -> bool:
        """Insert or replace; False if a newer version exists. Links and extents from items are kept."""
        collection_id, is_newest = collection["id"], True

        def decide(present: Document | None) -> Document | None:
            nonlocal is_newest
            before = present or layout.untold_collection(collection_id)
            stored_version = before.get(layout.VERSION_KEY, 0)
            new = {**collection, layout.VERSION_KEY: max(stored_version, 0) if version is None else version}
            new["extent"] = united(before.get("extent", {}), collection.get("extent", {}))
            new["summaries"] = merged_summaries(before.get("summaries", {}), collection.get("summaries", {}))
            if not new["summaries"]:
                del new["summaries"]
            new["links"] = layout.collection_links(collection, layout.listing_links(before))
            is_newest = version is None or layout.rank(new) >= layout.rank(before)
            return new if is_newest else _extended(before, new)

        self._files.change(layout.collection_path(collection_id), decide)
        self._list_collection(collection_id)
        return is_newest

    def put_item(self, collection_id: str, item: Mapping[str, Any], *, version: int | None = None) -> bool:
        """Insert or replace; False if a newer version exists. Without a version, the item counts as the newest."""
        placed = {**item, "collection": collection_id, "links": layout.item_links(item)}
        new = self._movable(layout.item_path(collection_id, item["id"]), placed)
        is_newest = self._settle(collection_id, item["id"], new, version)
        if is_newest:
            self._grow(collection_id, new)
        self.relink(collection_id, item["id"])
        self._list_collection(collection_id)
        return is_newest

    def remove_item(self, collection_id: str, item_id: str, *, version: int | None = None) -> bool:
        """Mark the item's file as removed, so that a late insertion of an older version changes nothing."""
        tombstone = {"type": layout.REMOVED, "id": item_id, "collection": collection_id}
        is_newest = self._settle(collection_id, item_id, tombstone, version)
        self.relink(collection_id, item_id)
        return is_newest

    def find_collection(self, collection_id: str) -> Document | None:
        return _public(self._files.load(layout.collection_path(collection_id)))

    def find_item(self, collection_id: str, item_id: str) -> Document | None:
        path = layout.item_path(collection_id, item_id)
        document = self._files.load(path)
        return None if document is None or document.get("type") == layout.REMOVED else self._resolved(path, document)

    def version_of(self, collection_id: str, item_id: str = "") -> int:
        """The version in the file of an item, or of its collection."""
        path = layout.item_path(collection_id, item_id) if item_id else layout.collection_path(collection_id)
        document = self._files.load(path)
        return 0 if document is None else int(document.get(layout.VERSION_KEY, 0))

    def is_removed(self, collection_id: str, item_id: str) -> bool:
        """Whether the item existed and was removed on purpose."""
        try:
            document = self._files.load(layout.item_path(collection_id, item_id))
        except FileDamaged:
            return False
        return document is not None and document.get("type") == layout.REMOVED

    def collection_ids(self) -> list[str]:
        """The ids of collections whose file can be read."""
        ids = []
        for name in self._collection_names():
            try:
                collection = self._files.load(f"{name}/collection.json")
            except FileDamaged:
                continue
            if collection is not None and isinstance(collection.get("id"), str):
                ids.append(collection["id"])
        return ids

    def items(self, collection_id: str) -> Iterator[tuple[str, Document | None]]:
        """Paths and items of a collection, without removed ones; None for a damaged file."""
        yield from self._items_in(file_name(collection_id))

    def is_listed(self, collection_id: str, item_id: str) -> bool:
        listing = self._look(collection_id, item_id)
        return bool(listing.listed) and not [page for page in listing.leading_nowhere if page < listing.listed[0]]

    def relink(self, collection_id: str, item_id: str) -> None:
        """Change the links to an item until they match its file.

        The file is read before the pages, and again after each change of a page: a writer that changes the file
        meanwhile checks the pages afterwards, and an interrupted call is repeated.
        """
        for _ in range(ATTEMPTS):
            exists = self.find_item(collection_id, item_id) is not None
            if not self._correct(collection_id, item_id, self._look(collection_id, item_id), exists):
                return
        raise StorageError(f"the links to item {item_id!r} have too many concurrent writers: try again later")

    def rebuild(self, collection_id: str | None = None) -> Rebuilt:
        """Rebuild all links, pages and extents from the files of items, whatever the state of the rest.

        Links of items from earlier releases become relative.
        """
        names = self._collection_names() if collection_id is None else [file_name(collection_id)]
        items, problems = 0, []
        for name in names:
            count, faults = self._rebuild_collection(name, collection_id)
            items += count
            problems += faults
        if names:
            self._rebuild_root()
        return Rebuilt(len(names), items, tuple(problems))

    def _settle(self, collection_id: str, item_id: str, new: Document, version: int | None) -> bool:
        """Write the item's file, which decides between all writers of the item."""
        is_newest = True

        def decide(present: Document | None) -> Document | None:
            nonlocal is_newest
            stored_version = 0 if present is None else present.get(layout.VERSION_KEY, 0)
            document = {**new, layout.VERSION_KEY: stored_version if version is None else version}
            is_newest = version is None or present is None or layout.rank(document) >= layout.rank(present)
            return document if is_newest else None

        self._files.change(layout.item_path(collection_id, item_id), decide, heals=True)
        return is_newest

    def _grow(self, collection_id: str, item: Document) -> None:
        """Extents grow with each item and shrink only in `rebuild`."""

        def decide(present: Document | None) -> Document:
            collection = present or layout.untold_collection(collection_id)
            grown = {**collection, "extent": united(collection.get("extent", {}), extent_of_item(item))}
            summaries = united_summaries(collection.get("summaries", {}), item)
            return {**grown, "summaries": summaries} if summaries else grown

        self._files.change(layout.collection_path(collection_id), decide)

    def _list_collection(self, collection_id: str) -> None:
        href = f"./{layout.collection_path(collection_id)}"
        self._files.change(ROOT, lambda root: layout.with_link(root or layout.empty_root(self._title), "child", href))

    def _correct(self, collection_id: str, item_id: str, listing: _Seen, exists: bool) -> bool:
        """Whether anything was wrong: one page, reachable from those above it, should list the item; or none."""
        place = (listing.listed or [listing.room])[0]
        wrong = False
        if exists:
            wrong = not listing.listed
            if wrong:
                page = layout.empty_page(collection_id, item_id, place)
                add = partial(_with_item, empty=page, href=layout.item_href(item_id, place), most=self._page_links)
                self._files.change(layout.page_path(collection_id, item_id, place), add)
            for above in [level for level in listing.leading_nowhere if level < place]:
                href = layout.child_href(item_id, above)
                self._files.change(layout.page_path(collection_id, item_id, above), partial(_with_child, href=href))
                wrong = True
        for extra in listing.listed[1:] if exists else listing.listed:
            href = layout.item_href(item_id, extra)
            self._files.change(layout.page_path(collection_id, item_id, extra), partial(_without_item, href=href))
            wrong = True
        return wrong

    def _look(self, collection_id: str, item_id: str) -> _Seen:
        """Read the pages on which the item may be listed, from the top.

        Pages without a link to them are read too while the pages above are full: their writer may have been killed.
        """
        listed, leading_nowhere, room, place = list[int](), list[int](), None, 0
        while (page := self._files.load(layout.page_path(collection_id, item_id, place))) is not None:
            listing = layout.has_link(page, "item", layout.item_href(item_id, place))
            if listing:
                listed.append(place)
            if room is None and (listing or layout.count_items(page) < self._page_links):
                room = place
            if not layout.has_link(page, "child", layout.child_href(item_id, place)):
                if room is not None:
                    break
                leading_nowhere.append(place)
            place += 1
        return _Seen(listed, place if room is None else room, leading_nowhere)

    def _movable(self, path: str, item: Document) -> Document:
        """The item with relative links to files in our storage, so that all files can be moved together."""
        own = self._files.address(path)
        return layout.with_hrefs(item, lambda href: self._storage.href_beside(href, own))

    def _converted(self, path: str, present: Document | None) -> Document | None:
        return present and self._movable(path, present)

    def _resolved(self, path: str, item: Document) -> Document:
        """The item as it was published, without the catalogue's own fields."""
        own = self._files.address(path)
        resolved = layout.with_hrefs(item, lambda href: self._storage.url_beside(href, own))
        return {key: value for key, value in resolved.items() if key != layout.VERSION_KEY}

    def _collection_names(self) -> list[str]:
        return sorted({path.split("/", 1)[0] for path in self._files.paths() if "/" in path})

    def _items_in(self, name: str) -> Iterator[tuple[str, Document | None]]:
        for path in self._files.paths(f"{name}/items/"):
            try:
                item = self._files.load(path)
            except FileDamaged:
                yield path, None
                continue
            if item is not None and item.get("type") != layout.REMOVED:
                yield path, self._resolved(path, item)

    def _rebuild_collection(self, name: str, known_id: str | None) -> tuple[int, list[str]]:
        problems: list[str] = []
        try:
            collection = self._files.load(f"{name}/collection.json")
        except FileDamaged as damage:
            problems.append(f"{damage.args[0].partition(';')[0]}; it was rebuilt from its items")
            collection = None
        extent, summaries, ids = unknown_extent(), dict[str, Any](), list[str]()
        collection_id = (collection or {}).get("id") or known_id
        for path, item in self._items_in(name):
            fault = layout.item_fault(path, item)
            if item is None or fault is not None:
                problems.append(fault or path)
                continue
            collection_id = collection_id or item.get("collection")
            ids.append(item["id"])
            self._files.change(path, partial(self._converted, path))
            extent, summaries = united(extent, extent_of_item(item)), united_summaries(summaries, item)
        if not isinstance(collection_id, str) or file_name(collection_id) != name:
            return 0, [*problems, f"{name}: no file in it names its collection, so it was not changed"]
        if collection is not None or ids:
            collection = collection or layout.untold_collection(collection_id)
            figures = {"extent": extent, **({"summaries": summaries} if summaries else {})} if ids else {}
            self._replace_pages(name, collection_id, ids, {**collection, **figures})
        return len(ids), problems

    def _replace_pages(self, name: str, collection_id: str, ids: list[str], collection: Document) -> None:
        pages = self._placed(collection_id, ids, collection)
        for path in sorted(pages, key=len, reverse=True):
            self._files.replace(path, pages[path])
        for stale in [path for path in self._files.paths(f"{name}/pages/") if path not in pages]:
            self._files.delete(stale)
        # Items that were added or removed while the pages were written.
        now = {item["id"] for path, item in self._items_in(name) if item and layout.item_fault(path, item) is None}
        for item_id in sorted(now.symmetric_difference(ids)):
            self.relink(collection_id, item_id)

    def _placed(self, collection_id: str, ids: list[str], collection: Document) -> dict[str, Document]:
        """All pages of a collection by path, including its own file."""
        links: dict[str, list[Document]] = {layout.collection_path(collection_id): []}
        pages = {layout.collection_path(collection_id): collection}
        filled: dict[str, int] = {}
        for item_id in sorted(ids):
            place, path = 0, layout.collection_path(collection_id)
            while filled.get(path, 0) >= self._page_links:
                below = layout.page_path(collection_id, item_id, place + 1)
                if below not in pages:
                    pages[below] = layout.empty_page(collection_id, item_id, place + 1)
                    links[below] = []
                    links[path].append(layout.link("child", layout.child_href(item_id, place)))
                place, path = place + 1, below
            filled[path] = filled.get(path, 0) + 1
            links[path].append(layout.link("item", layout.item_href(item_id, place), layout.GEOJSON))
        placed = {
            path: {**page, "links": layout.sorted_links([*page["links"], *links[path]])}
            for path, page in pages.items()
            if path != layout.collection_path(collection_id)
        }
        own = layout.collection_path(collection_id)
        return {**placed, own: {**collection, "links": layout.collection_links(collection, links[own])}}

    def _rebuild_root(self) -> None:
        root = layout.empty_root(self._title)
        for name in self._collection_names():
            if f"{name}/collection.json" in self._files.paths(f"{name}/collection.json"):
                root = layout.with_link(root, "child", f"./{name}/collection.json")
        self._files.replace(ROOT, root)


def _extended(present: Document, refused: Document) -> Document:
    """A late older version of a collection changes only the extent of the newer one."""
    return {**present, "extent": refused["extent"]}


def _with_item(page: Document | None, empty: Document, href: str, most: int) -> Document | None:
    """None if other writers have filled the page meanwhile: the next search finds the page below."""
    present = page or empty
    full = layout.count_items(present) >= most and not layout.has_link(present, "item", href)
    return None if full else layout.with_link(present, "item", href)


def _with_child(page: Document | None, href: str) -> Document | None:
    return page and layout.with_link(page, "child", href)


def _without_item(page: Document | None, href: str) -> Document | None:
    return page and layout.without_link(page, "item", href)


def _public(document: Document | None) -> Document | None:
    """The document without the catalogue's own fields."""
    return document and {key: value for key, value in document.items() if key != layout.VERSION_KEY}
