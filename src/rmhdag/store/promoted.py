"""Promoted datasets: references to the catalogue that people have put in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
MOST_IN_GALLERY = 500


class PromotedLine(NamedTuple):
    """`is_there`: the catalogue shows what it refers to. `is_withheld`: its revision is not cleared for the public."""

    promoted_id: str
    collection_id: str
    item_id: str
    title: str | None
    description: str | None
    thumbnail_url: str | None
    style_id: str | None
    gallery_order: int | None
    system_role: str | None
    classification: str
    promoted_by: str
    promoted_at: datetime
    updated_at: datetime
    tags: list[str]
    viewer_config: dict[str, Any]
    is_there: bool
    is_withheld: bool


def find_promoted(conn: Conn, namespace: str, promoted_id: str) -> PromotedLine | None:
    row = conn.execute(SQL["find"], {"namespace": namespace, "promoted_id": promoted_id}).fetchone()
    return None if row is None else PromotedLine(*row)


def list_promoted(
    conn: Conn,
    namespace: str,
    *,
    outside: bool = False,
    system_role: str | None = None,
    after: str = "",
    limit: int = 50,
) -> list[PromotedLine]:
    """By id; `outside`: only what the public may see."""
    parameters = {
        "namespace": namespace,
        "outside": outside,
        "system_role": system_role,
        "after": after,
        "limit": limit,
    }
    return [PromotedLine(*row) for row in conn.execute(SQL["list"], parameters).fetchall()]


def read_gallery(conn: Conn, namespace: str, *, outside: bool = False) -> list[PromotedLine]:
    """In its order."""
    parameters = {"namespace": namespace, "outside": outside, "limit": MOST_IN_GALLERY}
    return [PromotedLine(*row) for row in conn.execute(SQL["gallery"], parameters).fetchall()]


def is_reference_withheld(conn: Conn, namespace: str, collection_id: str, item_id: str) -> bool | None:
    """Whether the public must not see it; None: the catalogue does not have it."""
    parameters = {"namespace": namespace, "collection_id": collection_id, "item_id": item_id}
    row = conn.execute(SQL["reference"], parameters).fetchone()
    return None if row is None else bool(row[0])


def put_promoted(conn: Conn, row: Mapping[str, Any]) -> None:
    """Raises UniqueViolation if another one has its system role."""
    texts = {name: orjson.dumps(row[name]).decode() for name in ("tags", "viewer_config")}
    conn.execute(SQL["put"], {**row, **texts})


def delete_promoted(conn: Conn, namespace: str, promoted_id: str) -> bool:
    return conn.execute(SQL["delete"], {"namespace": namespace, "promoted_id": promoted_id}).rowcount == 1


def lock_promoted(conn: Conn, namespace: str) -> set[str]:
    """All of them, until the end of the transaction; their ids."""
    return {row[0] for row in conn.execute(SQL["lock"], {"namespace": namespace}).fetchall()}


def arrange_gallery(conn: Conn, namespace: str, promoted_ids: Sequence[str]) -> None:
    """Exactly these, in this order."""
    conn.execute(SQL["arrange"], {"namespace": namespace, "ids": list(promoted_ids)})
