"""Files and STAC items of revisions and jobs, as they are shown. Nothing here opens a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from psycopg.rows import class_row, dict_row

from rmhdag.models.api.assets import BlobView
from rmhdag.models.api.maps import ItemView
from rmhdag.models.blobs import BlobAddress
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)

# The address of a link of an item; None if it leads elsewhere.
AddressOf = Callable[[str], BlobAddress | None]


class ItemPlace(NamedTuple):
    """Where a page ended."""

    collection_id: str
    item_id: str


class Owner(NamedTuple):
    """Whose items and files: of a revision, or of a job."""

    namespace: str
    asset_id: str | None = None
    revision: int | None = None
    job_id: str | None = None


def find_file(conn: Conn, namespace: str, blob_id: str) -> BlobView | None:
    return _one(conn, "file", {"namespace": namespace, "blob_id": blob_id})


def find_thumbnail(conn: Conn, key: RevisionKey) -> BlobView | None:
    return _one(conn, "thumbnail", key._asdict())


def has_revision(conn: Conn, key: RevisionKey) -> bool:
    return conn.execute(SQL["has_revision"], key._asdict()).fetchone() is not None


def page_of_job_files(conn: Conn, namespace: str, job_id: str, *, after: str, limit: int) -> list[BlobView]:
    parameters = {"namespace": namespace, "job_id": job_id, "after": after, "limit": limit}
    with conn.cursor(row_factory=class_row(BlobView)) as cursor:
        return cursor.execute(SQL["job_files"], parameters).fetchall()


def page_of_items(
    conn: Conn, owner: Owner, address_of: AddressOf, *, after: ItemPlace | None, limit: int
) -> list[ItemView]:
    """Each with the files that its links name, if these are files of the same owner."""
    after = after or ItemPlace("", "")
    parameters = owner._asdict() | {
        "after_collection": after.collection_id,
        "after_item": after.item_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(SQL["job_items" if owner.job_id else "revision_items"], parameters).fetchall()
    links = [dict(_links_of(row["body"], address_of)) for row in rows]
    paths = sorted({address.path for addresses in links for address in addresses.values()})
    files = _files_at(conn, owner, paths) if paths else {}
    return [
        ItemView(
            item=row.pop("body"),
            files={name: files[address] for name, address in addresses.items() if address in files},
            **row,
        )
        for row, addresses in zip(rows, links, strict=True)
    ]


def _files_at(conn: Conn, owner: Owner, paths: list[str]) -> dict[BlobAddress, BlobView]:
    with conn.cursor(row_factory=class_row(BlobView)) as cursor:
        files = cursor.execute(SQL["files_at"], owner._asdict() | {"paths": paths}).fetchall()
    return {BlobAddress(file.zone, file.container, file.path): file for file in files}


def _links_of(item: dict[str, Any], address_of: AddressOf) -> Iterator[tuple[str, BlobAddress]]:
    assets = item.get("assets")
    for name, asset in assets.items() if isinstance(assets, dict) else ():
        link = asset.get("href") if isinstance(asset, dict) else None
        address = address_of(link) if isinstance(link, str) else None
        if address is not None:
            yield name, address


def _one(conn: Conn, query: str, parameters: dict[str, Any]) -> BlobView | None:
    with conn.cursor(row_factory=class_row(BlobView)) as cursor:
        return cursor.execute(SQL[query], parameters).fetchone()
