"""Public names: which stored table each of them shows. All names of one owner change in one transaction.

The table that had the name before moves to the work schema as `<name>_r<revision>`; nothing is copied. Between two who
switch the same name, the version decides, so that one who was held up cannot bring an older table back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from psycopg import sql

from rmhdag.models.table_names import name_with
from rmhdag.postgis.catalogue import catalogue_table, forget_table
from rmhdag.postgis.database import Conn, DataDatabase

# Readers of the old table are waited for so long; new readers wait behind us meanwhile.
LOCK_SECONDS = 2


class PlaceChange(NamedTuple):
    """What a public name is to show: a stored table, or none. `label` names the table once another has its place."""

    table_name: str
    version: int
    stored_name: str | None
    label: str = ""
    details: Mapping[str, Any] = MappingProxyType({})


class SwitchRefused(Exception):
    """It would fail again in the same way; the message says why."""


class Overtaken(Exception):
    """The data database has a newer version of one of the names."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        super().__init__(f"the data database has newer versions of {', '.join(versions)}")
        self.versions = dict(versions)


class _Relation(NamedTuple):
    schema: str
    name: str
    kind: str

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


def switch_places(database: DataDatabase, conn: Conn, changes: Sequence[PlaceChange]) -> None:
    """All of them, or none. A repetition changes nothing. Raises Overtaken and SwitchRefused."""
    with conn.transaction():
        conn.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        due = _lock_places(database, conn, sorted(changes))
        for change, current, label in due:
            if current is not None and current != change.stored_name:
                _move_away(database, conn, change.table_name, current, label)
            if change.stored_name is None:
                forget_table(database, conn, change.table_name)
        for change, _, _ in due:
            if change.stored_name is not None:
                _show(database, conn, change, change.stored_name)
                catalogue_table(database, conn, change.table_name, change.details)
            conn.execute(
                sql.SQL("UPDATE {} SET stored_name = %s, label = %s, version = %s WHERE table_name = %s").format(
                    _work(database, "places")
                ),
                [change.stored_name, change.label, change.version, change.table_name],
            )


def drop_stored(database: DataDatabase, conn: Conn, stored_name: str) -> bool:
    """Drop a table or view that no public name shows; False if one does. Dropping it twice does no harm."""
    with conn.transaction():
        conn.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        query = sql.SQL("SELECT FROM {} WHERE stored_name = %s FOR SHARE").format(_work(database, "places"))
        if conn.execute(query, [stored_name]).fetchone() is not None:
            return False
        relation = _find_relation(database, conn, stored_name)
        if relation is not None:
            kind = "VIEW" if relation.kind == "v" else "TABLE"
            conn.execute(sql.SQL("DROP {} IF EXISTS {} CASCADE").format(sql.SQL(kind), relation.identifier))
        for registry in ("loaded_chunks", "loaded_tables"):
            query = sql.SQL("DELETE FROM {} WHERE stored_name = %s").format(_work(database, registry))
            conn.execute(query, [stored_name])
    return True


def find_strays(database: DataDatabase, conn: Conn, days: float) -> list[str]:
    """Stored tables of this age that no public name shows: of jobs that failed, or of earlier revisions."""
    query = """SELECT t.stored_name FROM {} AS t
        WHERE t.created_at < now() - make_interval(secs => %s)
            AND NOT EXISTS (SELECT FROM {} AS p WHERE p.stored_name = t.stored_name)
        ORDER BY t.created_at LIMIT 1000"""
    names = [_work(database, "loaded_tables"), _work(database, "places")]
    return [row[0] for row in conn.execute(sql.SQL(query).format(*names), [days * 86_400]).fetchall()]


def _lock_places(
    database: DataDatabase, conn: Conn, changes: Sequence[PlaceChange]
) -> list[tuple[PlaceChange, str | None, str]]:
    """Those that are still to be made, each with the table that it shows now and its label."""
    places = _work(database, "places")
    due, newer = [], {}
    for change in changes:
        conn.execute(
            sql.SQL("INSERT INTO {} (table_name, version) VALUES (%s, 0) ON CONFLICT DO NOTHING").format(places),
            [change.table_name],
        )
        query = sql.SQL("SELECT version, stored_name, label FROM {} WHERE table_name = %s FOR UPDATE").format(places)
        row = conn.execute(query, [change.table_name]).fetchone()
        assert row is not None, "it was inserted"
        version, current, label = row
        if version > change.version:
            newer[change.table_name] = version
        elif version < change.version:
            due.append((change, current, label or ""))
    if newer:
        raise Overtaken(newer)
    return due


def _move_away(database: DataDatabase, conn: Conn, table_name: str, stored_name: str, label: str) -> None:
    relation = _find_relation(database, conn, stored_name)
    if relation is None or relation.schema != database.schema:
        return
    name = name_with(table_name, f"_{label}") if label else stored_name
    if name != relation.name and _exists(conn, database.work_schema, name):
        name = stored_name
    # In the work schema there may be another table of the public name.
    temporary = relation._replace(name=stored_name)
    if relation.name != stored_name:
        _rename(conn, relation, stored_name)
    _set_schema(conn, temporary, database.work_schema)
    if name != stored_name:
        _rename(conn, temporary._replace(schema=database.work_schema), name)


def _show(database: DataDatabase, conn: Conn, change: PlaceChange, stored_name: str) -> None:
    relation = _find_relation(database, conn, stored_name)
    if relation is None:
        raise SwitchRefused(f"the table for {change.table_name} is not in the data database any more: load it again")
    if relation[:2] == (database.schema, change.table_name):
        return
    if _exists(conn, database.schema, change.table_name):
        raise SwitchRefused(
            f"{database.schema}.{change.table_name} was not made by rmhdag: rename that table, or choose another name"
        )
    if relation.name != stored_name:
        _rename(conn, relation, stored_name)
    _set_schema(conn, relation._replace(name=stored_name), database.schema)
    public = _Relation(database.schema, stored_name, relation.kind)
    _rename(conn, public, change.table_name)
    _let_read(conn, public._replace(name=change.table_name))


def _let_read(conn: Conn, relation: _Relation) -> None:
    """A table that moves into a schema does not get the default privileges of tables that are made there."""
    query = """SELECT DISTINCT a.grantee, r.rolname
        FROM pg_default_acl AS d
        CROSS JOIN LATERAL aclexplode(d.defaclacl) AS a
        LEFT JOIN pg_roles AS r ON r.oid = a.grantee
        WHERE d.defaclnamespace = %s::regnamespace AND d.defaclobjtype = 'r' AND a.privilege_type = 'SELECT'"""
    for grantee, role in conn.execute(query, [sql.Identifier(relation.schema).as_string(conn)]).fetchall():
        reader = sql.SQL("PUBLIC") if grantee == 0 else sql.Identifier(role)
        conn.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(relation.identifier, reader))


def _find_relation(database: DataDatabase, conn: Conn, stored_name: str) -> _Relation | None:
    query = """SELECT n.nspname, c.relname, c.relkind::text
        FROM {} AS t
        JOIN pg_class AS c ON c.oid = t.relation
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE t.stored_name = %s"""
    row = conn.execute(sql.SQL(query).format(_work(database, "loaded_tables")), [stored_name]).fetchone()
    return None if row is None else _Relation(*row)


def _exists(conn: Conn, schema: str, name: str) -> bool:
    row = conn.execute("SELECT to_regclass(%s)", [sql.Identifier(schema, name).as_string(conn)]).fetchone()
    return row is not None and row[0] is not None


def _rename(conn: Conn, relation: _Relation, name: str) -> None:
    conn.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(relation.identifier, sql.Identifier(name)))


def _set_schema(conn: Conn, relation: _Relation, schema: str) -> None:
    if relation.schema != schema:
        conn.execute(sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(relation.identifier, sql.Identifier(schema)))


def _work(database: DataDatabase, name: str) -> sql.Identifier:
    return sql.Identifier(database.work_schema, name)
