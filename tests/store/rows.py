"""Rows of any table in and out: one statement per table, values adapted by the model."""

from collections.abc import Sequence
from typing import Any, TypeVar

from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from rmhdag.models.table import Row, columns_of
from rmhdag.store.connection import Conn

R = TypeVar("R", bound=Row)


def insert_rows(conn: Conn, schema: str, rows: Sequence[Row]) -> None:
    """Insert rows of one table. What the database makes itself (numbers, transaction ids) is left to it where None."""
    if not rows:
        return
    model = type(rows[0])
    names = [
        column.name
        for column in columns_of(model)
        if not column.column_type.made_by_database or any(getattr(row, column.name) is not None for row in rows)
    ]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(schema, model.table.name),
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.SQL(", ").join(sql.Placeholder(name) for name in names),
    )
    with conn.cursor() as cursor:
        cursor.executemany(statement, [row_values(row) for row in rows])


def read_rows(conn: Conn, schema: str, model: type[R], where: sql.Composable, values: Sequence[Any] = ()) -> list[R]:
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns_of(model))
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(names, sql.Identifier(schema, model.table.name), where)
    with conn.cursor(row_factory=dict_row) as cursor:
        return [model.model_validate(found) for found in cursor.execute(query, values)]


def row_values(row: Row) -> dict[str, Any]:
    """The row as statement parameters, JSON wrapped for the driver."""
    values = {}
    for column in columns_of(type(row)):
        value = getattr(row, column.name)
        values[column.name] = Jsonb(value) if column.column_type.sql == "jsonb" and value is not None else value
    return values
