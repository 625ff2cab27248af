"""Items that people take out of the catalogue. The relay passes it on to whichever catalogue there is."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

from rmhdag.store.audit import add_audit
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
BITE = 1_000
MOST_NAMED = 100
ACTION = "catalogue.remove"


class NotInCatalogue(Exception):
    """There is no such item or collection."""


class ShownByAsset(Exception):
    """The item is what an asset's current revision shows."""

    def __init__(self, item_id: str, asset_id: str) -> None:
        super().__init__(f"item {item_id!r} belongs to asset {asset_id}, which shows it")
        self.asset_id = asset_id


class Removal(NamedTuple):
    """`kept` are items of a collection that assets show."""

    removed: int
    kept: int
    item_ids: list[str]


@commit_site
def remove_from_catalogue(
    conn: Conn,
    namespace: str,
    collection_id: str,
    item_id: str | None,
    *,
    actor: str,
    reason: str | None = None,
    dry_run: bool = False,
) -> Removal:
    """One item, or all of a collection that no asset shows; the collection itself stays. Files stay as well.

    Raises NotInCatalogue, ShownByAsset.
    """
    which: dict[str, Any] = {"namespace": namespace, "collection_id": collection_id, "item_id": item_id}
    with conn.transaction():
        row = conn.execute(SQL["find_entries"], which).fetchone()
        assert row is not None
        free, kept, asset_id, known = row
        if item_id is not None and kept:
            raise ShownByAsset(item_id, asset_id)
        if not known or (item_id is not None and not free):
            raise NotInCatalogue
        if dry_run:
            return Removal(free, kept, [])
        removed: list[str] = []
        while bite := _remove_some(conn, which, removed[-1] if removed else ""):
            removed += bite
        if removed:
            add_audit(
                conn,
                namespace,
                actor,
                ACTION,
                collection_id if item_id is None else f"{collection_id}/{item_id}",
                before={"items": removed[:MOST_NAMED], "count": len(removed)},
                after={"count": 0, "kept": kept},
                reason=reason,
            )
    return Removal(len(removed), kept, removed[:MOST_NAMED])


def _remove_some(conn: Conn, which: dict[str, Any], after: str) -> list[str]:
    rows = conn.execute(SQL["remove_entries"], which | {"after": after, "limit": BITE}).fetchall()
    return sorted(row[0] for row in rows)
