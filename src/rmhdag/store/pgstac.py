"""pgSTAC in the database of the platform: told by its own functions, in the caller's transaction.

Its statements are not among the others: they can only be prepared where pgSTAC is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import psycopg

Conn = psycopg.Connection[Any]

IS_THERE = "SELECT to_regprocedure('pgstac.upsert_items(jsonb)') IS NOT NULL"
SEARCH_PATH = "SELECT current_setting('search_path')"
SET_SEARCH_PATH = "SELECT set_config('search_path', %s, true)"
PUT_COLLECTION = "SELECT pgstac.upsert_collection(%s::jsonb)"
PUT_ITEMS = "SELECT pgstac.upsert_items(%s::jsonb)"
REMOVE_ITEM = "DELETE FROM pgstac.items WHERE collection = %s AND id = %s"
MISSING = """SELECT c.id FROM unnest(%s::text[]) AS c (id)
    WHERE NOT EXISTS (SELECT FROM pgstac.collections AS p WHERE p.id = c.id) ORDER BY c.id LIMIT 1"""


class CollectionMissing(Exception):
    """pgSTAC takes no item without its collection."""


class ToldEntry(NamedTuple):
    """An entry of the catalogue as it is now; `item_id` is '' for a collection."""

    collection_id: str
    item_id: str
    removed: bool
    body: Mapping[str, Any]


def has_pgstac(conn: Conn) -> bool:
    row = conn.execute(IS_THERE).fetchone()
    return row is not None and bool(row[0])


def tell_pgstac(conn: Conn, entries: Sequence[ToldEntry]) -> None:
    """Collections first. Its functions find each other by the search path, which is ours again afterwards."""
    before = conn.execute(SEARCH_PATH).fetchone()
    assert before is not None
    conn.execute(SET_SEARCH_PATH, ["pgstac, public"])
    for entry in entries:
        if not entry.item_id and not entry.removed:
            conn.execute(PUT_COLLECTION, [orjson.dumps(entry.body).decode()], prepare=False)
    items = [entry for entry in entries if entry.item_id and not entry.removed]
    if items:
        named = sorted({entry.collection_id for entry in items})
        missing = conn.execute(MISSING, [named], prepare=False).fetchone()
        if missing is not None:
            raise CollectionMissing(f"there is no collection {missing[0]!r}: make it before its items")
        conn.execute(PUT_ITEMS, [orjson.dumps([entry.body for entry in items]).decode()], prepare=False)
    for entry in entries:
        if entry.item_id and entry.removed:
            conn.execute(REMOVE_ITEM, [entry.collection_id, entry.item_id], prepare=False)
    conn.execute(SET_SEARCH_PATH, [before[0]])
