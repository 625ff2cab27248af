"""The encoder of whole columns writes what psycopg writes row by row, for every type of column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.handlers.vector.attributes import stored_type
from rmhdag.postgis import copy_format
from rmhdag.postgis.copy_format import HEADER, TRAILER, CopyColumn, encode_rows
from rmhdag.postgis.loading import COLUMN_TYPES
from tests.conftest import databases

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
GEOMETRIES = st.sampled_from(
    [
        shapely.MultiPolygon([shapely.box(-180, -90, 180, 90)]),
        shapely.MultiPolygon([(((0, 0), (1, 0), (1, 1), (0, 0)), [((0.5, 0.2), (0.8, 0.2), (0.8, 0.5), (0.5, 0.2))])]),
        shapely.MultiPolygon([shapely.box(n, 0, n + 0.5, 1) for n in range(40)]),
        shapely.MultiPolygon(),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def decimal_of(number: int) -> Decimal:
    """With nine digits behind the point; arithmetic would round it to 28 digits."""
    return Decimal((int(number < 0), tuple(int(digit) for digit in str(abs(number))), -9))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "bytea": st.binary(max_size=30),
    "date": st.dates() | st.sampled_from([date.min, date.max, date(2000, 1, 1), date(1999, 12, 31)]),
    "double precision": st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308]),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "jsonb": JSON,
    "numeric": st.integers(1 - 10**38, 10**38 - 1).map(decimal_of),
    "text": TEXT,
    "time": st.times() | st.sampled_from([time.min, time.max]),
    "timestamptz": st.datetimes(timezones=st.just(UTC))
    | st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]),
}
TYPES = list(VALUES)
ROWS = st.lists(st.tuples(*(st.none() | values for values in (GEOMETRIES, *VALUES.values()))), max_size=12)


@pytest.fixture(scope="module")
def conn(postgis_server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with (
        databases(postgis_server).another("with_postgis") as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(TYPES))
        for name in ("by_columns", "by_rows"):
            words = f"CREATE TEMPORARY TABLE {name} (id bigint, geom geometry(MultiPolygon, 4326), {columns})"
            connection.execute(words.encode())
        yield connection


def columns_of(rows: list[tuple[Any, ...]]) -> list[CopyColumn]:
    """As prepared files have them."""
    shapes = [None if row[0] is None else shapely.to_wkb(row[0]) for row in rows]
    columns = [CopyColumn("bytea", pa.array(shapes, type=pa.binary()))]
    for place, type_ in enumerate(TYPES, start=1):
        values = [row[place] for row in rows]
        if type_ == "jsonb":
            values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        columns.append(CopyColumn(type_, pa.array(values, type=stored_type(type_))))
    return columns


def copy_columns(conn: psycopg.Connection[Any], first_id: int, columns: list[CopyColumn]) -> None:
    with conn.cursor().copy("COPY by_columns FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(HEADER)
        for piece in encode_rows(first_id, columns):
            copy.write(piece)
        copy.write(TRAILER)


def copy_rows(conn: psycopg.Connection[Any], first_id: int, rows: list[tuple[Any, ...]]) -> None:
    names = {"bigint": "int8", "boolean": "bool", "double precision": "float8", "integer": "int4"}
    with conn.cursor().copy("COPY by_rows FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["int8", "bytea", *(names.get(type_, type_) for type_ in TYPES)])
        for number, (shape, *values) in enumerate(rows, start=first_id):
            wrapped = [
                Jsonb(value) if type_ == "jsonb" and value is not None else value
                for type_, value in zip(TYPES, values, strict=True)
            ]
            copy.write_row((number, None if shape is None else shapely.to_wkb(shape), *wrapped))


def check_same(conn: psycopg.Connection[Any], rows: int) -> None:
    """As text, which shows the scale of numbers and every byte of geometries."""
    query = """SELECT count(*), count(*) FILTER (WHERE a::text IS DISTINCT FROM b::text), min(a::text), min(b::text)
        FROM by_columns AS a FULL JOIN by_rows AS b USING (id)"""
    count, different, one, other = conn.execute(query).fetchone() or (None, None, None, None)
    assert (count, different) == (rows, 0), f"{one} is not {other}"


def test_every_type_of_a_table_is_tried() -> None:
    assert set(VALUES) == COLUMN_TYPES


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=60
)
@given(rows=ROWS, first_id=st.integers(-(2**62), 2**62), skip=st.integers(0, 3))
def test_columns_are_written_as_psycopg_writes_rows(
    conn: psycopg.Connection[Any], rows: list[tuple[Any, ...]], first_id: int, skip: int
) -> None:
    """`skip` begins in the middle of the arrays, as slices of a batch do."""
    conn.execute("TRUNCATE by_columns, by_rows")
    columns = [column._replace(values=column.values.slice(skip)) for column in columns_of(rows)]
    copy_columns(conn, first_id, columns)
    copy_rows(conn, first_id, rows[skip:])
    check_same(conn, len(rows[skip:]))


def test_rows_without_any_null_and_rows_of_nulls_only(conn: psycopg.Connection[Any]) -> None:
    conn.execute("TRUNCATE by_columns, by_rows")
    moment = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
    full = (
        shapely.MultiPolygon([shapely.box(0, 0, 1, 1)]), 2**63 - 1, True, b"\0\xff", date.max, float("nan"), -(2**31),
        {"ä": [1, None, "\u20ac"]}, Decimal("-1.000000001"), "Straße \U0001f5fa", time(23, 59, 59, 999_999), moment,
    )  # fmt: skip
    rows = [full, tuple(None for _ in full), full]
    copy_columns(conn, 1, columns_of([full]))
    copy_columns(conn, 2, columns_of(rows[1:]))
    copy_rows(conn, 1, rows)
    check_same(conn, 3)


def test_long_rows_are_written_in_pieces_of_bounded_size(
    conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    conn.execute("TRUNCATE by_columns, by_rows")
    monkeypatch.setattr(copy_format, "PIECE_BYTES", 1_000)
    start = datetime(2020, 1, 1, tzinfo=UTC)
    rows = [
        (None, n, None, b"", None, None, None, None, None, "x" * (5_000 if n in (7, 8) else n), None, start + n * DAY)
        for n in range(100)
    ]
    columns = columns_of(rows)
    sizes = [len(piece) for piece in encode_rows(1, columns)]
    assert len(sizes) > 5
    assert max(sizes) < 5_000 + 2 * 2_000, "one long row, and what may stand beside it"
    copy_columns(conn, 1, columns)
    copy_rows(conn, 1, rows)
    check_same(conn, 100)


DAY = timedelta(days=1)
