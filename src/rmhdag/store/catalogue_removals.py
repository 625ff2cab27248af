"""Items that people take out of the catalogue. The relay passes it on to whichever catalogue there is."""

from __future__ import annotations

from typing import Any, NamedTuple

from rmhdag.models.refusals import Kind, Refusal
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
BITE = 1_000
MOST_NAMED = 100
ACTION = "catalogue.remove"


class NotInCatalogue(Refusal):
    """There is no such item or collection."""

    def __init__(self, collection_id: str, item_id: str | None) -> None:
        what = f"collection {collection_id!r}" if item_id is None else f"item {item_id!r} in {collection_id!r}"
        super().__init__(Kind.NOT_FOUND, "not_found", f"there is no {what}")


class ShownByAsset(Refusal):
    """The item is what an asset's current revision shows."""

    def __init__(self, item_id: str, asset_id: str) -> None:
        super().__init__(
            Kind.CONFLICT,
            "shown_by_asset",
            f"item {item_id!r} belongs to asset {asset_id}, which shows it",
            remedy=f"Delete the asset (`DELETE /api/v1/assets/{asset_id}`), or roll it back.",
        )
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
        free, remaining, asset_id, exists = row
        if item_id is not None and remaining:
            raise ShownByAsset(item_id, asset_id)
        if not exists or (item_id is not None and not free):
            raise NotInCatalogue(collection_id, item_id)
        if dry_run:
            return Removal(free, remaining, [])
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
                after={"count": 0, "kept": remaining},
                reason=reason,
            )
    return Removal(len(removed), remaining, removed[:MOST_NAMED])


def _remove_some(conn: Conn, which: dict[str, Any], after: str) -> list[str]:
    rows = conn.execute(SQL["remove_entries"], which | {"after": after, "limit": BITE}).fetchall()
    return sorted(row[0] for row in rows)
