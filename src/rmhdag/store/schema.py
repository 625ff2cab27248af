"""The models' tables as SQLAlchemy Core tables and as DDL text. Hides how a model becomes SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from rmhdag.models.rows import ROWS
from rmhdag.models.table import Check, Column, Index, Row, columns_of, enum_type_name, quote
from rmhdag.store.day_functions import DAY_FUNCTIONS
from rmhdag.store.partitions import default_partition_ddl

DEFAULT_SCHEMA = "dagapp"
TOUCH_FUNCTION = "dag_set_updated_at"
TOUCH_BODY = "BEGIN NEW.updated_at := clock_timestamp(); RETURN NEW; END"

_DIALECT = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]
_TYPES: dict[str, type[TypeEngine[Any]]] = {
    "text": sa.Text,
    "smallint": sa.SmallInteger,
    "integer": sa.Integer,
    "bigint": sa.BigInteger,
    "double precision": postgresql.DOUBLE_PRECISION,
    "boolean": sa.Boolean,
    "bytea": postgresql.BYTEA,
    "jsonb": postgresql.JSONB,
}


def check_schema_name(schema: str) -> str:
    """Return the name, or raise a ValueError: it must need no quotes anywhere."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema) or schema.startswith("pg_"):
        raise ValueError(
            f"schema name {schema!r} is not usable: take lower-case letters, digits and _, at most 48, not pg_…"
        )
    return schema


def index_name(row: type[Row], index: Index) -> str:
    return f"{row.table.name}_{index.name}_idx"


def check_name(row: type[Row], check: Check) -> str:
    return f"{row.table.name}_{check.name}_check"


def trigger_name(row: type[Row]) -> str:
    return f"{row.table.name}_set_updated_at"


def is_touched(row: type[Row]) -> bool:
    """Whether the database stamps `updated_at` of this table."""
    return "updated_at" in row.model_fields


def enums_of(rows: Iterable[type[Row]]) -> dict[str, type[StrEnum]]:
    """The enum types that the tables use, by their SQL name."""
    enums = {enum_type_name(column.enum): column.enum for row in rows for column in columns_of(row) if column.enum}
    return dict(sorted(enums.items()))


def make_metadata(schema: str, rows: Sequence[type[Row]] = ROWS) -> sa.MetaData:
    metadata = sa.MetaData(schema=schema)
    for row in rows:
        _make_table(metadata, schema, row)
    return metadata


def _make_table(metadata: sa.MetaData, schema: str, row: type[Row]) -> sa.Table:
    spec = row.table
    options: dict[str, Any] = {}
    if spec.partition_by:
        options["postgresql_partition_by"] = f"RANGE ({spec.partition_by})"
    elif spec.storage:
        options["postgresql_with"] = spec.storage
    table = sa.Table(
        spec.name,
        metadata,
        *(_make_column(schema, column) for column in columns_of(row)),
        sa.PrimaryKeyConstraint(*spec.key, name=f"{spec.name}_pkey"),
        *(sa.CheckConstraint(check.condition, name=check_name(row, check)) for check in spec.checks),
        **options,
    )
    for index in spec.indexes:
        sa.Index(
            index_name(row, index),
            *(sa.text(name) if " " in name else table.c[name] for name in index.columns),
            unique=index.unique,
            postgresql_where=sa.text(index.where) if index.where else None,
            postgresql_using=index.method,
            postgresql_with=index.storage,
            _table=table,
        )
    return table


def _make_column(schema: str, column: Column) -> sa.Column[Any]:
    if column.column_type.identity:
        return sa.Column(column.name, _sql_type(schema, column), sa.Identity(always=False), nullable=False)
    return sa.Column(
        column.name,
        _sql_type(schema, column),
        nullable=column.nullable,
        server_default=sa.text(column.default) if column.default is not None else None,
        autoincrement=False,
    )


def _sql_type(schema: str, column: Column) -> TypeEngine[Any]:
    kind = column.column_type
    if column.enum:
        labels = [member.value for member in column.enum]
        return postgresql.ENUM(*labels, name=kind.sql, schema=schema, create_type=False)
    if match := re.fullmatch(r"varchar\((\d+)\)", kind.sql):
        return sa.String(int(match[1]), collation=kind.collation)
    if kind.sql == "timestamptz":
        return sa.TIMESTAMP(timezone=True)
    return _TYPES[kind.sql]()


def column_type_ddl(schema: str, column: Column) -> str:
    """The type as `ALTER TABLE` wants it, with its collation: left out, PostgreSQL would take the default one."""
    return _sql_type(schema, column).compile(dialect=_DIALECT)


def enum_ddl(schema: str, name: str, labels: Iterable[str]) -> str:
    return f"CREATE TYPE {schema}.{name} AS ENUM ({', '.join(quote(label) for label in labels)})"


def function_ddl(schema: str) -> str:
    return (
        f"CREATE OR REPLACE FUNCTION {schema}.{TOUCH_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ {TOUCH_BODY} $$"
    )


def trigger_ddl(schema: str, row: type[Row]) -> str:
    """A statement that stamps `updated_at` itself spares the call, which costs 4 µs a row."""
    return (
        f"CREATE OR REPLACE TRIGGER {trigger_name(row)} BEFORE UPDATE ON {schema}.{row.table.name} "
        f"FOR EACH ROW WHEN (NEW.updated_at IS NOT DISTINCT FROM OLD.updated_at) "
        f"EXECUTE FUNCTION {schema}.{TOUCH_FUNCTION}()"
    )


def table_ddl(table: sa.Table) -> str:
    text = str(CreateTable(table).compile(dialect=_DIALECT)).strip()
    return re.sub(r"\s*\n\s*", "\n  ", text).replace("\n  )", "\n)")


def index_ddl(index: sa.Index) -> str:
    return str(CreateIndex(index).compile(dialect=_DIALECT)).strip()


def create_table_ddl(schema: str, row: type[Row], table: sa.Table) -> list[str]:
    """All that makes up a new table, its rows' triggers and its catch-all partition included."""
    statements = [table_ddl(table)]
    statements += [index_ddl(index) for index in sorted(table.indexes, key=lambda index: str(index.name))]
    if is_touched(row):
        statements.append(trigger_ddl(schema, row))
    if row.table.partition_by:
        statements.append(default_partition_ddl(schema, row.table))
    return statements


def ddl(schema: str = DEFAULT_SCHEMA, rows: Sequence[type[Row]] = ROWS) -> str:
    """The whole schema as a script. Day partitions are not in it: migration makes them for the coming days."""
    check_schema_name(schema)
    metadata = make_metadata(schema, rows)
    statements = [f"CREATE SCHEMA IF NOT EXISTS {schema}"]
    statements += [enum_ddl(schema, name, enum) for name, enum in enums_of(rows).items()]
    statements.append(function_ddl(schema))
    for function in DAY_FUNCTIONS:
        statements += [function.ddl(schema), function.closing_ddl(schema)]
    for row in rows:
        statements += create_table_ddl(schema, row, metadata.tables[f"{schema}.{row.table.name}"])
    return "".join(f"{statement};\n\n" for statement in statements)
