"""Attributes on their way into a table: names that need no quotes, types that PostgreSQL has, values that it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused
from rmhdag.models.table_names import OWN_COLUMNS, column_names
from rmhdag.observability.secrets import mask_and_cut

FIRST_DAY, LAST_DAY = date(1, 1, 1), date(9999, 12, 31)
FIRST_MOMENT = int(datetime(1, 1, 1, tzinfo=UTC).timestamp())
LAST_MOMENT = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
QUOTED_DATES = 3
NUL = "\\u0000"
# A backslash that is text itself is written as two.
ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class TableColumn(NamedTuple):
    """`source_name` is the name in the file."""

    name: str
    source_name: str
    type: str


class Attributes:
    """The columns of a layer as a table has them. Counts what is changed, and which columns have values."""

    def __init__(self, schema: pa.Schema, renames: Mapping[str, str], name: str, findings: Findings) -> None:
        missing = [source for source in renames if source not in schema.names]
        if missing:
            columns = ", ".join(repr(column[:40]) for column in schema.names[:20])
            raise VectorRefused(
                f"{name} has no column {missing[0][:60]!r} to rename; it has {columns}.", code="VECTOR_ATTRIBUTE_ERROR"
            )
        chosen = [renames.get(field.name, field.name) for field in schema]
        names = column_names(chosen)
        self._findings = findings
        self.columns = [
            TableColumn(column, field.name, sql_type(field.type)) for column, field in zip(names, schema, strict=True)
        ]
        self._has_value = np.zeros(len(self.columns), dtype=bool)
        reserved = [source for source in chosen if source.lower() in OWN_COLUMNS]
        findings.add(
            Finding.RESERVED_COLUMNS,
            "columns with names that every table has are kept as source_…",
            len(reserved),
            reserved,
        )
        renamed = [
            f"{source} → {column}"
            for source, column in zip(chosen, names, strict=True)
            if source != column and source.lower() not in OWN_COLUMNS
        ]
        findings.add(Finding.COLUMNS_RENAMED, "columns were renamed", len(renamed), renamed)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, stored_type(column.type)) for column in self.columns])

    def convert(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of a batch, with the types that they are stored with."""
        arrays = []
        for index, column in enumerate(self.columns):
            array = self._converted(batch.column(index), column)
            self._has_value[index] |= array.null_count < len(array)
            arrays.append(array)
        return arrays

    def kept(self) -> list[TableColumn]:
        """After the last batch: those in which some row has a value. The others are named in a warning."""
        empty = [column.source_name for column in self.empty()]
        self._findings.add(Finding.EMPTY_COLUMNS, "columns without any value are left out", len(empty), empty)
        return [column for column, used in zip(self.columns, self._has_value, strict=True) if used]

    def empty(self) -> list[TableColumn]:
        return [column for column, used in zip(self.columns, self._has_value, strict=True) if not used]

    def _converted(self, array: pa.Array, column: TableColumn) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        target = stored_type(column.type)
        if column.type == "jsonb":
            return self._json(array, column)
        if column.type == "timestamptz":
            return self._moments(array, column)
        if column.type == "date":
            return self._days(array, column)
        if column.type == "text":
            return self._text(array, column)
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:
            raise VectorRefused(
                f"column {column.source_name[:60]!r} has a value that does not fit: {mask_and_cut(str(error), 100)}.",
                code="VECTOR_ATTRIBUTE_ERROR",
            ) from None

    def _text(self, array: pa.Array, column: TableColumn) -> pa.Array:
        text = array.cast(pa.string())
        broken = pc.match_substring(text, "\0")
        count = pc.sum(broken).as_py() or 0
        if count:
            self._findings.add(
                Finding.TEXT_CHANGED, "NUL characters were removed from text", count, [column.source_name]
            )
            text = pc.replace_substring(text, "\0", "")
        return text

    def _json(self, array: pa.Array, column: TableColumn) -> pa.Array:
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            texts = [_valid_json(text) for text in array.to_pylist()]
        else:
            values = array.to_pylist()
            texts = [None if value is None else orjson.dumps(value, default=str).decode() for value in values]
        plain = [text if text is None or NUL not in text else ESCAPED_NUL.sub(r"\1", text) for text in texts]
        count = sum(text != other for text, other in zip(texts, plain, strict=True))
        self._findings.add(Finding.TEXT_CHANGED, "NUL characters were removed from text", count, [column.source_name])
        return pa.array(plain, type=pa.string())

    def _moments(self, array: pa.Array, column: TableColumn) -> pa.Array:
        """Times without a zone are UTC. Years that no calendar of ours has become null."""
        factor = UNITS[array.type.unit]
        numbers = array.cast(pa.int64())
        if factor > 10**6:
            # The limits have no 64 bits in nanoseconds.
            numbers, factor = pc.divide(numbers, factor // 10**6), 10**6
        outside = pc.or_(pc.less(numbers, FIRST_MOMENT * factor), pc.greater(numbers, LAST_MOMENT * factor))
        numbers = self._reset(numbers, outside, numbers, column)
        if factor < 10**6:
            numbers = pc.multiply(numbers, 10**6 // factor)
        return numbers.cast(pa.timestamp("us", tz="UTC"))

    def _days(self, array: pa.Array, column: TableColumn) -> pa.Array:
        numbers = array.cast(pa.date32()).cast(pa.int32())
        epoch = date(1970, 1, 1)
        outside = pc.or_(pc.less(numbers, (FIRST_DAY - epoch).days), pc.greater(numbers, (LAST_DAY - epoch).days))
        return self._reset(numbers, outside, numbers, column).cast(pa.date32())

    def _reset(self, array: pa.Array, outside: pa.Array, values: pa.Array, column: TableColumn) -> pa.Array:
        count = pc.sum(outside).as_py() or 0
        if count:
            samples = [f"{column.source_name}: {value}" for value in values.filter(outside)[:QUOTED_DATES].to_pylist()]
            self._findings.add(Finding.DATES_RESET, "dates outside of the years 1 to 9999 became null", count, samples)
            array = pc.if_else(outside, pa.scalar(None, array.type), array)
        return array


def sql_type(type_: pa.DataType) -> str:
    """PostgreSQL's type for an Arrow type."""
    if isinstance(type_, pa.BaseExtensionType):
        return "jsonb" if type_.extension_name == "arrow.json" else sql_type(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return sql_type(type_.value_type)
    rules = (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_uint64, "numeric"),
        (pa.types.is_int64, "bigint"),
        (pa.types.is_uint32, "bigint"),
        (pa.types.is_integer, "integer"),
        (pa.types.is_floating, "double precision"),
        (pa.types.is_decimal, "numeric"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "timestamptz"),
        (pa.types.is_time, "time"),
        (pa.types.is_nested, "jsonb"),
        (pa.types.is_binary, "bytea"),
        (pa.types.is_large_binary, "bytea"),
        (pa.types.is_fixed_size_binary, "bytea"),
    )
    return next((name for rule, name in rules if rule(type_)), "text")


def stored_type(name: str) -> pa.DataType:
    """How GeoParquet files of ours hold a column of this type; objects and lists are JSON text."""
    return {
        "boolean": pa.bool_(),
        "numeric": pa.decimal128(38, 9),
        "bigint": pa.int64(),
        "integer": pa.int32(),
        "double precision": pa.float64(),
        "date": pa.date32(),
        "timestamptz": pa.timestamp("us", tz="UTC"),
        "time": pa.time64("us"),
        "jsonb": pa.string(),
        "bytea": pa.binary(),
        "text": pa.string(),
    }[name]


def _valid_json(text: str | None) -> str | None:
    """GDAL hands plain text over as it is, in a column where other rows have objects."""
    if text is None:
        return None
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()
    return text
