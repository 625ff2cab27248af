"""Rules that hold for all tables, and what the models refuse before any SQL."""

import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rmhdag.models import columns
from rmhdag.models.columns import BooleanType, FloatType, IntegerType, JsonType, TextType, TimestampType
from rmhdag.models.jobs import Job, NodeState
from rmhdag.models.rows import OLDEST_CODE_VERSION, ROWS, SCHEMA_VERSION
from rmhdag.models.table import Column, Row, columns_of, enum_type_name

HOT_TABLES = {"dag_jobs", "dag_node_states", "dag_task_results", "dag_queue_messages", "dag_inbox"}
# Tables that are one per process, job row or task: they belong to whom their job belongs to, or to nobody.
WITHOUT_NAMESPACE = {
    "dag_schema_meta",
    "dag_handlers",
    "dag_orchestrators",
    "dag_workers",
    "dag_orchestrator_events",
    "dag_inbox",
}
# Unique whatever the namespace: made at random, or from what is, or for the operators of the platform alone to bind.
GLOBAL_IDS = {"job_id", "task_id", "secret_hash", "collection_id", "issuer"}

ALL_COLUMNS = [
    pytest.param(row, column, id=f"{row.table.name}.{column.name}") for row in ROWS for column in columns_of(row)
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.table.name)
def test_declared_names_exist_and_fit(row: type[Row]) -> None:
    names = {column.name for column in columns_of(row)}
    assert set(row.table.key) <= names
    for index in row.table.indexes:
        # Words of SQL are in capitals.
        assert {name for part in index.columns for name in re.findall(r"\b[a-z_]+\b", part)} <= names
        assert len(f"{row.table.name}_{index.name}_idx_rebuilt") <= 63
    for check in row.table.checks:
        assert any(name in check.condition for name in names)
        assert len(f"{row.table.name}_{check.name}_check") <= 63
    assert row.table.partition_by is None or row.table.partition_by in row.table.key


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.table.name)
def test_what_belongs_to_somebody_has_a_namespace_first(row: type[Row]) -> None:
    assert ("namespace" not in row.model_fields) == (row.table.name in WITHOUT_NAMESPACE)
    if "namespace" not in row.model_fields:
        return
    column = next(column for column in columns_of(row) if column.name == "namespace")
    assert (column.column_type.sql, column.default, column.nullable) == ("varchar(64)", "'default'", False)
    if len(row.table.key) > 1 and row.table.key[0] not in GLOBAL_IDS:
        assert row.table.key[0] == "namespace"
    for index in row.table.indexes:
        if index.name == "list" or (index.unique and index.columns[0] not in GLOBAL_IDS):
            assert index.columns[0] == "namespace", index.name


def test_no_index_names_the_status_of_nodes() -> None:
    assert all(
        "status" not in index.columns and "status" not in (index.where or "") for index in NodeState.table.indexes
    )


def test_hot_tables_leave_room_on_their_pages() -> None:
    tables = {row.table.name: row.table for row in ROWS}
    assert all(int(tables[name].storage["fillfactor"]) < 100 for name in HOT_TABLES)


def test_enum_types_have_one_definition_each() -> None:
    enums = {column.enum for row in ROWS for column in columns_of(row) if column.enum}
    assert len({enum_type_name(enum) for enum in enums}) == len(enums)


def test_version_numbers_are_in_order() -> None:
    assert 1 <= OLDEST_CODE_VERSION <= SCHEMA_VERSION


def hostile_values(column: Column) -> Iterator[Any]:
    kind = column.column_type
    if isinstance(kind, TextType):
        yield from ("a\0b".ljust(64, "x"), "\ud800".ljust(64, "x"), 7)
        if kind.max_length is not None:
            yield "x" * (kind.max_length + 1)
        if kind.max_bytes is not None:
            yield "ä" * (kind.max_bytes // 2 + 1)
        if kind.min_length:
            yield "x" * (kind.min_length - 1)
    elif isinstance(kind, IntegerType):
        yield from (kind.minimum - 1, kind.maximum + 1, True, "3", 1.5)
    elif isinstance(kind, FloatType):
        yield from (float("nan"), float("inf"), -0.5, 150.0, "1")
    elif isinstance(kind, BooleanType):
        yield from (1, "true")
    elif isinstance(kind, JsonType):
        yield from ({"a": float("nan")}, {"a": "\0"}, {"a": "\ud800"}, {"a": 2**70}, {"a": "x" * kind.max_bytes})
        deep: Any = {}
        for _ in range(70):
            deep = {"a": deep}
        yield deep
    elif isinstance(kind, TimestampType):
        yield from (datetime(2026, 1, 1), datetime(1, 1, 1, tzinfo=UTC), "infinity")  # noqa: DTZ001
    elif column.enum:
        yield from ("no such label", 1)
    else:
        yield from ("text", b"x" * 2**21)


@pytest.mark.parametrize(("row", "column"), ALL_COLUMNS)
def test_values_that_the_column_would_refuse_never_pass_the_model(row: type[Row], column: Column) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(typing.get_type_hints(row, include_extras=True)[column.name])
    refused = 0
    for value in hostile_values(column):
        with pytest.raises(ValidationError):
            adapter.validate_python(value)
        refused += 1
    assert refused


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Job.model_validate({"is_admin": True})


def test_a_field_without_a_column_type_is_named() -> None:
    class Strange(Row):
        table = Job.table
        value: str

    with pytest.raises(TypeError, match=r"Strange\.value has no column type"):
        columns_of(Strange)


def test_a_default_without_sql_form_is_named() -> None:
    class Strange(Row):
        table = Job.table
        value: columns.Percent = 1.5

    with pytest.raises(TypeError, match=r"Strange\.value: a default of type float"):
        columns_of(Strange)


def test_models_load_no_database_library() -> None:
    script = (
        "import sys, rmhdag.models.rows, rmhdag.models.messages, rmhdag.models.handler_result\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'psycopg', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
