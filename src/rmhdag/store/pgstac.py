"""pgSTAC in the database of the platform, through its own functions, in the caller's transaction.

Bodies go from our tables to pgSTAC's within the server. These statements are not among the others: they can only be
prepared where pgSTAC is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from rmhdag.models.namespaces import home_of
from rmhdag.store.connection import Conn

IS_THERE = "SELECT to_regprocedure('pgstac.upsert_items(jsonb)') IS NOT NULL"
SEARCH_PATH = "SELECT current_setting('search_path')"
SET_SEARCH_PATH = "SELECT set_config('search_path', %s, true)"
GIVE = "SELECT set_config('rmhdag.given', %s, true)"
MISSING = """SELECT c.id FROM unnest(%s::text[]) AS c (id)
    WHERE NOT EXISTS (SELECT FROM pgstac.collections AS p WHERE p.id = c.id) ORDER BY c.id LIMIT 1"""

# pgSTAC knows no namespaces: there, ids of collections begin with a prefix for their namespace.
ENTRY = ("namespace", "collection_id", "item_id", "prefix")
IS_ENTRY = "e.namespace = r->>'namespace' AND e.collection_id = r->>'collection_id' AND e.item_id = r->>'item_id'"
ENTRIES = f"""FROM jsonb_array_elements(%(keys)s::jsonb) AS r
    JOIN dag_catalogue_entries AS e ON {IS_ENTRY}"""
PUT_COLLECTIONS = f"""SELECT pgstac.upsert_collection(
        e.body || jsonb_build_object('id', (r->>'prefix') || e.collection_id))
    {ENTRIES} WHERE e.item_id = '' AND NOT e.removed"""
PUT_ITEMS = f"""SELECT pgstac.upsert_items(i.bodies)
    FROM (
        SELECT jsonb_agg(e.body || jsonb_build_object('collection', (r->>'prefix') || e.collection_id)) AS bodies
        {ENTRIES} WHERE e.item_id <> '' AND NOT e.removed
    ) AS i
    WHERE i.bodies IS NOT NULL"""
REMOVE_ITEMS = f"""DELETE FROM pgstac.items AS p
    USING jsonb_array_elements(%(keys)s::jsonb) AS r, dag_catalogue_entries AS e
    WHERE {IS_ENTRY} AND e.item_id <> '' AND e.removed
        AND p.collection = (r->>'prefix') || e.collection_id AND p.id = e.item_id"""
SETTLE = f"""UPDATE dag_catalogue_entries AS e
    SET status = 'published', published_version = e.version, published_at = clock_timestamp()
    FROM jsonb_array_elements(%(keys)s::jsonb) AS r
    WHERE {IS_ENTRY} AND e.status = 'pending'"""

# In a block with its own savepoint: a rollback sent by the client would make the driver forget its prepared statements
# in the middle of a pipeline.
ITEM = ("namespace", "asset_id", "revision", "collection_id", "item_id", "prefix")
REHEARSE = """DO $$
BEGIN
    PERFORM pgstac.upsert_items((
        SELECT jsonb_agg(i.body || jsonb_build_object('collection', (r->>'prefix') || i.collection_id))
        FROM jsonb_array_elements(current_setting('rmhdag.given')::jsonb) AS r
        JOIN dag_revision_items AS i
            ON i.namespace = r->>'namespace' AND i.asset_id = r->>'asset_id' AND i.revision = (r->>'revision')::int
            AND i.collection_id = r->>'collection_id' AND i.item_id = r->>'item_id'));
    RAISE SQLSTATE 'RM001';
EXCEPTION WHEN SQLSTATE 'RM001' THEN NULL;
END $$"""

# What pgSTAC refuses now, although it took it in the rehearsal, stays pending: the relay tries it item by item.
# The range begins after the one key and ends with the other.
RANGE = tuple("namespace asset_id revision after_collection after_item last_collection last_item prefix".split())
IS_IN_RANGE = """e.namespace = r->>'namespace' AND e.asset_id = r->>'asset_id' AND e.revision = (r->>'revision')::int
            AND NOT e.removed AND (e.collection_id, e.item_id) > (r->>'after_collection', r->>'after_item')
            AND (e.collection_id, e.item_id) <= (r->>'last_collection', r->>'last_item')"""
SHOW_RANGE = f"""DO $$
DECLARE r jsonb := current_setting('rmhdag.given')::jsonb;
BEGIN
    PERFORM pgstac.upsert_items(i.bodies)
    FROM (
        SELECT jsonb_agg(e.body || jsonb_build_object('collection', (r->>'prefix') || e.collection_id)) AS bodies
        FROM dag_catalogue_entries AS e
        WHERE {IS_IN_RANGE}
    ) AS i
    WHERE i.bodies IS NOT NULL;
    UPDATE dag_catalogue_entries AS e
    SET status = 'published', published_version = e.version, published_at = clock_timestamp()
    WHERE {IS_IN_RANGE};
EXCEPTION WHEN OTHERS THEN NULL;
END $$"""
ASSET = ("namespace", "asset_id", "prefix")
HIDE_REMOVED = """DO $$
DECLARE r jsonb := current_setting('rmhdag.given')::jsonb;
BEGIN
    DELETE FROM pgstac.items AS p
    USING dag_catalogue_entries AS e
    WHERE e.namespace = r->>'namespace' AND e.asset_id = r->>'asset_id' AND e.removed AND e.status = 'pending'
        AND p.collection = (r->>'prefix') || e.collection_id AND p.id = e.item_id;
    UPDATE dag_catalogue_entries AS e
    SET status = 'published', published_version = e.version, published_at = clock_timestamp()
    WHERE e.namespace = r->>'namespace' AND e.asset_id = r->>'asset_id' AND e.removed AND e.status = 'pending';
EXCEPTION WHEN OTHERS THEN NULL;
END $$"""


class CollectionMissing(Exception):
    """pgSTAC takes no item without its collection."""


def has_pgstac(conn: Conn) -> bool:
    row = conn.execute(IS_THERE).fetchone()
    return row is not None and bool(row[0])


def prefix_of(namespace: str) -> str:
    """What goes before ids of its collections in pgSTAC; nothing for `default`."""
    home = home_of(namespace)
    return f"{home}:" if home else ""


def put_in_pgstac(conn: Conn, keys: Sequence[tuple[str, str, str]]) -> None:
    """These entries (namespace, collection, item) as they are now; collections first. Their rows then say that it is
    done."""
    parameters = {"keys": orjson.dumps([_named(ENTRY, key) for key in keys]).decode()}
    with _searching(conn):
        conn.execute(PUT_COLLECTIONS, parameters, prepare=False)
        require_collections(conn, [(namespace, collection_id) for namespace, collection_id, item_id in keys if item_id])
        for statement in (PUT_ITEMS, REMOVE_ITEMS, SETTLE):
            conn.execute(statement, parameters, prepare=False)


def require_collections(conn: Conn, collections: Sequence[tuple[str, str]]) -> None:
    ids = {prefix_of(namespace) + collection_id: collection_id for namespace, collection_id in collections}
    missing = conn.execute(MISSING, [sorted(ids)], prepare=False).fetchone()
    if missing is not None:
        raise CollectionMissing(f"there is no collection {ids[missing[0]]!r}: create it before its items")


def rehearse_items(conn: Conn, keys: Sequence[tuple[str, str, int, str, str]]) -> None:
    """Raise what pgSTAC has against these items of a revision while their node can still fail for it. Shows nothing."""
    require_collections(conn, [(namespace, collection_id) for namespace, _, _, collection_id, _ in keys])
    with _searching(conn):
        _run(conn, REHEARSE, [_named(ITEM, key) for key in keys])


def show_range(conn: Conn, items: Sequence[str | int]) -> None:
    """The entries of a range of a revision's items."""
    with _searching(conn):
        _run(conn, SHOW_RANGE, _named(RANGE, items))


def hide_removed(conn: Conn, namespace: str, asset_id: str) -> None:
    """The removed entries of an asset."""
    with _searching(conn):
        _run(conn, HIDE_REMOVED, _named(ASSET, (namespace, asset_id)))


def _named(names: Sequence[str], key: Sequence[Any]) -> dict[str, Any]:
    """A key, which begins with its namespace, with the names that the statements use."""
    return dict(zip(names, (*key, prefix_of(key[0])), strict=True))


def _run(conn: Conn, block: str, parameters: dict[str, Any] | list[dict[str, Any]]) -> None:
    conn.execute(GIVE, [orjson.dumps(parameters).decode()], prepare=False)
    conn.execute(block.encode(), prepare=False)


@contextmanager
def _searching(conn: Conn) -> Iterator[None]:
    """pgSTAC's functions find each other by the search path, which is ours again afterwards."""
    before = conn.execute(SEARCH_PATH).fetchone()
    assert before is not None
    conn.execute(SET_SEARCH_PATH, [f"pgstac, public, {before[0]}"])
    yield
    conn.execute(SET_SEARCH_PATH, [before[0]])
