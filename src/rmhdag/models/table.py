"""How a model says what its table looks like, without knowing any SQL library.

A row model carries `table`, a `Table`; each field is annotated with a column type of `rmhdag.models.columns`. A field's
default is the column's default; `X | None` is a nullable column. `rmhdag.store.schema` turns this into DDL.
"""

import functools
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Union

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticUndefined


@dataclass(frozen=True, kw_only=True)
class ColumnType:
    """A PostgreSQL type; subclasses also make Pydantic refuse what the column would refuse.

    `default` is an SQL expression, for defaults that only the database can give. What is `made_by_database` is None in
    the model until the row is stored, and never NULL in the table; `identity` columns are numbered.
    """

    sql: str
    collation: str | None = None
    default: str | None = None
    identity: bool = False
    made_by_database: bool = False

    def constrain(self, schema: CoreSchema) -> CoreSchema:
        return schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return self.constrain(handler(source))


@dataclass(frozen=True)
class Index:
    """`columns` are names, `name DESC`, or expressions with a space. The index is called after its table and `name`."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    where: str | None = None
    method: str = "btree"
    storage: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """An invariant that the database itself keeps. It is called after its table and `name`."""

    name: str
    condition: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """`partition_by` names the timestamp whose UTC day decides the partition.

    There are no foreign keys: they cost a quarter of the throughput; the checker and pruning keep rows whole.
    """

    name: str
    key: tuple[str, ...]
    indexes: tuple[Index, ...] = ()
    checks: tuple[Check, ...] = ()
    storage: dict[str, str] = field(default_factory=dict)
    partition_by: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a table, as read from the model."""

    name: str
    column_type: ColumnType
    enum: type[StrEnum] | None
    nullable: bool
    default: str | None


class Row(BaseModel):
    """One row of one table."""

    # Built on first use: no process needs all of them, and building takes most of the import time.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    table: ClassVar[Table]


def one_of(column: str, values: typing.Collection[StrEnum]) -> str:
    """An SQL condition, with the values in the order of their definition so that it reads the same each time."""
    members = [member for member in type(next(iter(values))) if member in values]
    return f"{column} IN ({', '.join(quote(member.value) for member in members)})"


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def enum_type_name(enum: type[StrEnum]) -> str:
    """JobStatus → job_status."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in enum.__name__).lstrip("_")


@functools.cache
def columns_of(row: type[Row]) -> tuple[Column, ...]:
    """The columns of a row model in the order of its fields."""
    hints = typing.get_type_hints(row, include_extras=True)
    return tuple(_column(row, name, hints[name]) for name in row.model_fields)


def _column(row: type[Row], name: str, hint: Any) -> Column:
    optional, inner = _without_none(hint)
    type_, enum = _column_type(inner)
    if type_ is None:
        raise TypeError(f"{row.__name__}.{name} has no column type: annotate it with one of rmhdag.models.columns")
    default = type_.default if type_.default is not None else _default(row, name)
    nullable = optional and not type_.made_by_database
    return Column(name=name, column_type=type_, enum=enum, nullable=nullable, default=default)


def _without_none(hint: Any) -> tuple[bool, Any]:
    if typing.get_origin(hint) in (Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        if len(members) == 1:
            return True, members[0]
    return False, hint


def _column_type(hint: Any) -> tuple[ColumnType | None, type[StrEnum] | None]:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ColumnType(sql=enum_type_name(hint)), hint
    if typing.get_origin(hint) is Annotated:
        for mark in hint.__metadata__:
            if isinstance(mark, ColumnType):
                return mark, None
    return None, None


def _default(row: type[Row], name: str) -> str | None:
    info = row.model_fields[name]
    if info.default_factory is dict:
        return "'{}'"
    if info.default_factory is list:
        return "'[]'"
    value = info.default
    if value is None or value is PydanticUndefined:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quote(str(value))
    raise TypeError(f"{row.__name__}.{name}: a default of type {type(value).__name__} has no SQL form")
