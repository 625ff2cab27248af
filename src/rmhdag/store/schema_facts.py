"""What a schema holds, as PostgreSQL itself words it.

The wished-for schema is built among the session's temporary objects, read by the same queries as the live one, and
rolled back: so both sides of a comparison were worded by the same server, and equal means equal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from psycopg import errors

from rmhdag.models.table import Row
from rmhdag.store.connection import Conn
from rmhdag.store.day_functions import DAY_FUNCTIONS
from rmhdag.store.migration_steps import MigrationFailed
from rmhdag.store.schema import (
    enum_ddl,
    enums_of,
    function_ddl,
    index_ddl,
    is_touched,
    make_metadata,
    table_ddl,
    trigger_ddl,
)

_SCRATCH = "pg_temp"


@dataclass
class ColumnFacts:
    type: str
    not_null: bool
    default: str | None
    default_is_volatile: bool
    collation: str | None
    identity: bool


@dataclass
class IndexFacts:
    definition: str
    unique: bool
    primary: bool
    valid: bool


@dataclass
class CheckFacts:
    definition: str
    valid: bool


@dataclass
class TableFacts:
    """`attached` tells for each index of a partitioned table which partitions have their part of it."""

    partitioned: bool
    storage: dict[str, str]
    columns: dict[str, ColumnFacts] = field(default_factory=dict)
    indexes: dict[str, IndexFacts] = field(default_factory=dict)
    checks: dict[str, CheckFacts] = field(default_factory=dict)
    triggers: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, TableFacts] = field(default_factory=dict)
    attached: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class SchemaFacts:
    exists: bool
    enums: dict[str, list[str]]
    functions: dict[str, str]
    tables: dict[str, TableFacts]


def read_live(conn: Conn, schema: str) -> SchemaFacts:
    with conn.transaction(force_rollback=True):
        # Names that the path makes visible are printed bare; the wished-for side prints them bare too.
        conn.execute("SELECT set_config('search_path', %s, true)", [schema])
        row = conn.execute("SELECT oid FROM pg_namespace WHERE nspname = %s", [schema]).fetchone()
        return _read(conn, row[0]) if row else SchemaFacts(exists=False, enums={}, functions={}, tables={})


def read_wished(conn: Conn, rows: Sequence[type[Row]]) -> SchemaFacts:
    with conn.transaction(force_rollback=True):
        conn.execute("SELECT set_config('search_path', 'pg_temp', true)")
        try:
            conn.execute(_scratch_script(tuple(rows)))
        except errors.InsufficientPrivilege as error:
            raise MigrationFailed(
                f"the comparison builds temporary tables in database {conn.info.dbname}: {str(error).strip()}. "
                f"Remedy: GRANT TEMPORARY ON DATABASE {conn.info.dbname} TO {conn.info.user}."
            ) from error
        row = conn.execute("SELECT pg_my_temp_schema()").fetchone()
        assert row
        return _read(conn, row[0])


@functools.cache
def _scratch_script(rows: tuple[type[Row], ...]) -> bytes:
    """All of the schema but partitions, whose names and bounds say everything about them."""
    statements = [enum_ddl(_SCRATCH, name, enum) for name, enum in enums_of(rows).items()]
    statements += [function_ddl(_SCRATCH), *(function.ddl(_SCRATCH) for function in DAY_FUNCTIONS)]
    metadata = make_metadata(_SCRATCH, rows)
    for row in rows:
        table = metadata.tables[f"{_SCRATCH}.{row.table.name}"]
        statements += [table_ddl(table), *map(index_ddl, table.indexes)]
        if is_touched(row):
            statements.append(trigger_ddl(_SCRATCH, row))
    return ";\n".join(statements).encode()


def _read(conn: Conn, namespace: int) -> SchemaFacts:
    schema = SchemaFacts(exists=True, enums={}, functions={}, tables={})
    for name, label in conn.execute(_ENUMS, [namespace]):
        schema.enums.setdefault(name, []).append(label)
    for name, body in conn.execute(_FUNCTIONS, [namespace]):
        schema.functions[name] = body
    by_oid: dict[int, TableFacts] = {}
    leaves: list[tuple[str, TableFacts, int]] = []
    for oid, name, kind, options, parent in conn.execute(_TABLES, [namespace]):
        facts = by_oid[oid] = TableFacts(partitioned=kind == "p", storage=_storage(options))
        if parent is None:
            schema.tables[name] = facts
        else:
            leaves.append((name, facts, parent))
    for name, facts, parent in leaves:
        if parent in by_oid:
            by_oid[parent].partitions[name] = facts
    for query, store in _DETAILS:
        for oid, *values in conn.execute(query, [namespace]):
            if oid in by_oid:
                store(by_oid[oid], *values)
    return schema


def _storage(options: list[str] | None) -> dict[str, str]:
    return dict(option.split("=", 1) for option in options or [])


def _store_column(
    facts: TableFacts,
    name: str,
    type_: str,
    not_null: bool,
    default: str | None,
    volatile: bool,
    collation: str | None,
    identity: bool,
) -> None:
    facts.columns[name] = ColumnFacts(type_, not_null, default, volatile, collation, identity)


def _store_index(facts: TableFacts, name: str, definition: str, unique: bool, primary: bool, valid: bool) -> None:
    facts.indexes[name] = IndexFacts(definition.split(" USING ", 1)[1], unique, primary, valid)


def _store_check(facts: TableFacts, name: str, definition: str, valid: bool) -> None:
    facts.checks[name] = CheckFacts(definition.removesuffix(" NOT VALID"), valid)


def _store_trigger(facts: TableFacts, name: str, kind: int, definition: str, function: str) -> None:
    condition = definition.split(" FOR EACH ROW ", 1)[-1].split("EXECUTE ", 1)[0]
    facts.triggers[name] = f"{kind} {condition}{function}"


def _store_attached(facts: TableFacts, index: str, leaf: str) -> None:
    facts.attached.setdefault(index, set()).add(leaf)


_ENUMS = """
    SELECT t.typname, e.enumlabel FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
    WHERE t.typnamespace = %s ORDER BY t.typname, e.enumsortorder"""

_FUNCTIONS = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = %s"

_TABLES = """
    SELECT c.oid, c.relname, c.relkind::text, c.reloptions, i.inhparent
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE c.relnamespace = %s AND c.relkind IN ('r', 'p') ORDER BY c.relname"""

_COLUMNS = """
    SELECT a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
      EXISTS (
        SELECT FROM regexp_matches(pg_get_expr(d.adbin, d.adrelid), '(\\w+)\\(', 'g') called
        JOIN pg_proc f ON f.proname = called[1] WHERE f.provolatile = 'v'),
      (SELECT collname FROM pg_collation WHERE oid = a.attcollation AND collname <> 'default'), a.attidentity <> ''
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = %s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attrelid, a.attnum"""

_INDEXES = """
    SELECT i.indrelid, c.relname, pg_get_indexdef(i.indexrelid), i.indisunique, i.indisprimary, i.indisvalid
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = %s ORDER BY c.relname"""

_ATTACHED = """
    SELECT p.indrelid, pc.relname, leaf.relname
    FROM pg_inherits h JOIN pg_index p ON p.indexrelid = h.inhparent JOIN pg_class pc ON pc.oid = p.indexrelid
    JOIN pg_index l ON l.indexrelid = h.inhrelid JOIN pg_class leaf ON leaf.oid = l.indrelid
    WHERE pc.relnamespace = %s"""

_CHECKS = """
    SELECT conrelid, conname, pg_get_constraintdef(oid), convalidated
    FROM pg_constraint WHERE contype = 'c' AND connamespace = %s"""

_TRIGGERS = """
    SELECT t.tgrelid, t.tgname, t.tgtype::int, pg_get_triggerdef(t.oid), f.proname
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc f ON f.oid = t.tgfoid
    WHERE c.relnamespace = %s AND NOT t.tgisinternal"""

_DETAILS: tuple[tuple[str, Callable[..., None]], ...] = (
    (_COLUMNS, _store_column),
    (_INDEXES, _store_index),
    (_ATTACHED, _store_attached),
    (_CHECKS, _store_check),
    (_TRIGGERS, _store_trigger),
)
