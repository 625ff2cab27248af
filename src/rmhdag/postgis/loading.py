"""Loading a table: made without indexes in the work schema, filled chunk by chunk, indexed and counted at the end.

A chunk is one transaction together with its row in `loaded_chunks`: however often a task is repeated, and even if two
workers run it at once, its rows are in the table once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import pyarrow as pa
from psycopg import sql

from rmhdag.models.table_names import name_with
from rmhdag.postgis.copy_format import HEADER, TRAILER, CopyColumn, encode_rows
from rmhdag.postgis.database import Conn, DataDatabase

# Types of columns that a table may have; `copy_format` writes each of them.
COLUMN_TYPES = frozenset(
    ("bigint", "boolean", "bytea", "date", "double precision", "integer", "jsonb", "numeric", "text", "time")
) | {"timestamptz"}
MAINTENANCE_MB = 128
# Tables with so many rows are worth a second connection while they are indexed.
ASIDE_ROWS = 20_000


class ColumnDefinition(NamedTuple):
    name: str
    type: str


class LoadedChunk(NamedTuple):
    """`is_new` is false for a chunk that an earlier attempt has loaded."""

    row_count: int
    deleted_count: int
    is_new: bool


class TableFacts(NamedTuple):
    """`bounds` is west, south, east, north; None for a table without rows."""

    row_count: int
    bounds: tuple[float, float, float, float] | None


class IndexWish(NamedTuple):
    """Columns with a B-tree, and those with one that begins with the newest."""

    spatial: bool = True
    attributes: Sequence[str] = ()
    temporal: Sequence[str] = ()


class LoadingError(Exception):
    """The table is not what the caller believes; the message says why."""


def create_table(
    database: DataDatabase, conn: Conn, stored_name: str, geometry_type: str, columns: Sequence[ColumnDefinition]
) -> None:
    """Make the table, unless an earlier attempt has made it."""
    types = [column.type for column in columns]
    unknown = next((name for name in types if name not in COLUMN_TYPES), None)
    if unknown is not None:
        raise ValueError(f"there is no column type {unknown!r}: use {', '.join(sorted(COLUMN_TYPES))}")
    table = sql.Identifier(database.work_schema, stored_name)
    with conn.transaction():
        # Two attempts at once: the second waits here, and finds the table.
        registry = _registry(database, "loaded_tables")
        row = conn.execute(
            sql.SQL("INSERT INTO {} (stored_name, relation) VALUES (%s, 0) ON CONFLICT DO NOTHING RETURNING 1").format(
                registry
            ),
            [stored_name],
        ).fetchone()
        if row is None:
            return
        parts = [
            sql.SQL("id bigint NOT NULL"),
            sql.SQL("geom geometry({}, 4326)").format(sql.SQL(_safe(geometry_type))),
        ]
        parts += [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_)) for name, type_ in columns]
        conn.execute(sql.SQL("CREATE TABLE {} ({})").format(table, sql.SQL(", ").join(parts)))
        # Nothing reads it before it is indexed, and then it is analysed at once.
        conn.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(table))
        conn.execute(
            sql.SQL("UPDATE {} SET relation = %s::regclass WHERE stored_name = %s").format(registry),
            [table.as_string(conn), stored_name],
        )


def load_chunk(
    database: DataDatabase,
    conn: Conn,
    stored_name: str,
    batch_id: str,
    content_hash: str,
    first_id: int,
    columns: Sequence[ColumnDefinition],
    batches: Iterable[pa.RecordBatch],
) -> LoadedChunk:
    """Copy the rows into the table, in one transaction. Batches have the geometry first, then the columns."""
    chunks = _registry(database, "loaded_chunks")
    place = [stored_name, batch_id]
    with conn.transaction():
        _require_open(database, conn, stored_name)
        # Waits for another attempt that loads this chunk now.
        row = conn.execute(
            sql.SQL(
                "INSERT INTO {} (stored_name, batch_id, content_hash, row_count, first_id) VALUES (%s, %s, %s, 0, %s) "
                "ON CONFLICT DO NOTHING RETURNING 1"
            ).format(chunks),
            [*place, content_hash, first_id],
        ).fetchone()
        deleted = 0
        if row is None:
            query = (
                "SELECT content_hash, row_count, first_id FROM {} WHERE stored_name = %s AND batch_id = %s FOR UPDATE"
            )
            other_hash, row_count, other_id = conn.execute(sql.SQL(query).format(chunks), place).fetchone() or (
                "",
                0,
                0,
            )
            if (other_hash, other_id) == (content_hash, first_id):
                return LoadedChunk(row_count, 0, is_new=False)
            deleted = conn.execute(
                sql.SQL("DELETE FROM {} WHERE id >= %s AND id < %s").format(_table(database, stored_name)),
                [other_id, other_id + row_count],
            ).rowcount
        count = _copy(database, conn, stored_name, first_id, columns, batches)
        conn.execute(
            sql.SQL(
                "UPDATE {} SET row_count = %s, content_hash = %s, first_id = %s, loaded_at = now() "
                "WHERE stored_name = %s AND batch_id = %s"
            ).format(chunks),
            [count, content_hash, first_id, *place],
        )
    return LoadedChunk(count, deleted, is_new=True)


def finish_table(
    database: DataDatabase, conn: Conn, stored_name: str, expected_rows: int, wish: IndexWish
) -> TableFacts:
    """Index, analyse and count the table. Raises LoadingError if rows are missing or too many."""
    table = _table(database, stored_name)
    registry = _registry(database, "loaded_tables")
    with conn.transaction():
        row = conn.execute(
            sql.SQL("SELECT is_finished FROM {} WHERE stored_name = %s FOR UPDATE").format(registry), [stored_name]
        ).fetchone()
        if row is None:
            raise LoadingError(f"there is no table {stored_name} being loaded: run the steps before this one again")
        is_aside = not row[0] and wish.spatial and expected_rows >= ASIDE_ROWS
        with _indexing_aside(database, stored_name) if is_aside else nullcontext():
            facts = _measure(conn, table)
            if facts.row_count != expected_rows:
                raise LoadingError(
                    f"table {stored_name} has {facts.row_count:,} rows, and {expected_rows:,} were prepared: some "
                    "chunk was not loaded, or another job has written into the table"
                )
            if not row[0]:
                _index_columns(conn, table, stored_name, wish)
        if not row[0]:
            _complete(conn, table, stored_name, facts.row_count, wish)
            conn.execute(
                sql.SQL("UPDATE {} SET is_finished = true, row_count = %s WHERE stored_name = %s").format(registry),
                [facts.row_count, stored_name],
            )
    conn.execute(sql.SQL("ANALYZE {}").format(table))
    return facts


def has_foreign_table(database: DataDatabase, conn: Conn, table_name: str) -> bool:
    """Whether the public name belongs to a table or view that rmhdag has not made."""
    query = sql.SQL("SELECT to_regclass(%s) IS NOT NULL AND NOT EXISTS (SELECT FROM {} WHERE table_name = %s)")
    name = sql.Identifier(database.schema, table_name).as_string(conn)
    row = conn.execute(query.format(_registry(database, "places")), [name, table_name]).fetchone()
    return row is not None and bool(row[0])


def _measure(conn: Conn, table: sql.Identifier) -> TableFacts:
    query = """SELECT n, ST_XMin(box), ST_YMin(box), ST_XMax(box), ST_YMax(box)
        FROM (SELECT count(*) AS n, ST_Extent(geom) AS box FROM {}) AS facts"""
    row = conn.execute(sql.SQL(query).format(table)).fetchone()
    assert row is not None, "an aggregate has a row"
    return TableFacts(row[0], None if row[1] is None else (row[1], row[2], row[3], row[4]))


@contextmanager
def _indexing_aside(database: DataDatabase, stored_name: str) -> Iterator[None]:
    """Makes the index of geometries on a connection of its own while the block runs: it takes longer than all others.

    It is committed by itself. An attempt after this one finds it, or waits until the server has made it.
    """

    def run() -> None:
        with database.connect() as conn, conn.transaction():
            conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"index {stored_name}"])
            _index_geometries(conn, _table(database, stored_name), stored_name)

    with ThreadPoolExecutor(1, thread_name_prefix="index") as pool:
        indexing = pool.submit(run)
        yield
        indexing.result()


def _index_geometries(conn: Conn, table: sql.Identifier, stored_name: str) -> None:
    _allow_memory(conn)
    query = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING gist (geom)")
    conn.execute(query.format(_index_name(stored_name, "geom"), table))


def _index_columns(conn: Conn, table: sql.Identifier, stored_name: str, wish: IndexWish) -> None:
    """After loading: several times faster than keeping indexes up to date meanwhile."""
    _allow_memory(conn)
    key = sql.Identifier(name_with(stored_name, "_pkey"))
    conn.execute(sql.SQL("CREATE UNIQUE INDEX {} ON {} (id)").format(key, table))
    for column in dict.fromkeys(wish.attributes):
        query = sql.SQL("CREATE INDEX {} ON {} ({})")
        conn.execute(query.format(_index_name(stored_name, column), table, sql.Identifier(column)))
    for column in dict.fromkeys(wish.temporal):
        query = sql.SQL("CREATE INDEX {} ON {} ({} DESC)")
        conn.execute(query.format(_index_name(stored_name, f"{column}_desc"), table, sql.Identifier(column)))


def _complete(conn: Conn, table: sql.Identifier, stored_name: str, row_count: int, wish: IndexWish) -> None:
    """What locks the table, once all indexes are made."""
    if wish.spatial:
        _index_geometries(conn, table, stored_name)
    key = sql.Identifier(name_with(stored_name, "_pkey"))
    conn.execute(sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} PRIMARY KEY USING INDEX {}").format(table, key, key))
    conn.execute(
        sql.SQL(
            "ALTER TABLE {} ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME {} START WITH {})"
        ).format(
            table,
            sql.Identifier(table._obj[0], name_with(stored_name, "_id_seq")),
            sql.Literal(row_count + 1),
        )
    )
    conn.execute(sql.SQL("ALTER TABLE {} RESET (autovacuum_enabled)").format(table))


def _allow_memory(conn: Conn) -> None:
    conn.execute(sql.SQL("SET LOCAL maintenance_work_mem = {}").format(sql.Literal(f"{MAINTENANCE_MB}MB")))


def _index_name(stored_name: str, ending: str) -> sql.Identifier:
    return sql.Identifier(name_with(f"idx_{stored_name}", f"_{ending}"))


def _copy(
    database: DataDatabase,
    conn: Conn,
    stored_name: str,
    first_id: int,
    columns: Sequence[ColumnDefinition],
    batches: Iterable[pa.RecordBatch],
) -> int:
    names = sql.SQL(", ").join(sql.Identifier(name) for name in ("id", "geom", *(column.name for column in columns)))
    query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(_table(database, stored_name), names)
    # PostGIS reads plain WKB as a geometry, and gives it the SRID of its column.
    types = ["bytea", *(column.type for column in columns)]
    number = first_id
    with conn.cursor() as cursor, cursor.copy(query) as copy:
        copy.write(HEADER)
        for batch in batches:
            for piece in encode_rows(number, [CopyColumn(*pair) for pair in zip(types, batch.columns, strict=True)]):
                copy.write(piece)
            number += batch.num_rows
        copy.write(TRAILER)
    return number - first_id


def _require_open(database: DataDatabase, conn: Conn, stored_name: str) -> None:
    query = sql.SQL("SELECT is_finished FROM {} WHERE stored_name = %s FOR SHARE")
    row = conn.execute(query.format(_registry(database, "loaded_tables")), [stored_name]).fetchone()
    if row is None:
        raise LoadingError(f"there is no table {stored_name} to load into: run the steps before this one again")
    if row[0]:
        # A chunk that comes twice is found in the ledger, unless the table was finished with less.
        return


def _table(database: DataDatabase, stored_name: str) -> sql.Identifier:
    return sql.Identifier(database.work_schema, stored_name)


def _registry(database: DataDatabase, name: str) -> sql.Identifier:
    return sql.Identifier(database.work_schema, name)


def _safe(geometry_type: str) -> str:
    if geometry_type not in ("MultiPoint", "MultiLineString", "MultiPolygon"):
        raise ValueError(f"tables have one kind of geometry, not {geometry_type!r}")
    return geometry_type
