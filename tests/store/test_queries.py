"""Every named query is prepared against the migrated schema, so that none can be wrong without anybody noticing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

import rmhdag.store
from rmhdag.models.states import JobStatus
from rmhdag.store.batch_rows import FIELDS, JobChange, encode_rows
from rmhdag.store.queries import QueryError, load_queries

FOLDER = Path(rmhdag.store.__file__).parent
QUERIES = [(path.stem, name) for path in sorted(FOLDER.glob("*.sql")) for name in load_queries(str(path))]
PARAMETER = re.compile(r"%\((\w+)\)s")


@pytest.mark.parametrize(("module", "name"), QUERIES, ids=[f"{module}.{name}" for module, name in QUERIES])
def test_it_can_be_prepared(conn: psycopg.Connection[Any], module: str, name: str) -> None:
    query = load_queries(str(FOLDER / f"{module}.sql"))[name].decode()
    names = list(dict.fromkeys(PARAMETER.findall(query)))
    numbered = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", query).replace("%%", "%")
    conn.execute("SET LOCAL search_path TO dagapp")
    conn.execute(f"PREPARE tried AS {numbered}".encode())


@pytest.mark.parametrize(("module", "name"), QUERIES, ids=[f"{module}.{name}" for module, name in QUERIES])
def test_the_driver_remembers_it(module: str, name: str) -> None:
    """A longer text is taken apart and put together again at every call: 5 us per task for the claims alone."""
    query = load_queries(str(FOLDER / f"{module}.sql"))[name]
    assert len(query) <= psycopg._queries.MAX_CACHED_STATEMENT_LENGTH


def test_what_is_written_for_readers_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "some.sql").write_text("-- name: one\n-- why\nSELECT 1,\n    -- and why this\n    '--', 2;\n")
    assert load_queries(str(tmp_path / "some.py")) == {"one": b"SELECT 1,\n'--', 2;"}


def loaded(folder: Path, text: str) -> dict[str, bytes]:
    (folder / "some.sql").write_text(text)
    return load_queries(str(folder / "some.py"))


def test_fields_become_the_positions_of_their_row(tmp_path: Path) -> None:
    """All fields of a row are read, but not all by one query; braces of JSON stay as they are."""
    text = (
        "-- name: one\n-- why\n-- row: LeaseKey\nSELECT (r->>{lease_epoch})::bigint, r->{task_id}, '{}'\n"
        "-- name: other\n-- row: LeaseKey\nSELECT g.r->>{task_id}\n-- name: third\nSELECT '{x}', r->>'x'\n"
    )
    queries = loaded(tmp_path, text)
    assert FIELDS["LeaseKey"] == ("task_id", "lease_epoch")
    assert queries["one"] == b"SELECT (r->>1)::bigint, r->0, '{}'"
    assert queries["other"] == b"SELECT g.r->>0"
    assert queries["third"] == b"SELECT '{x}', r->>'x'"


def test_a_field_that_no_query_needs_is_named(tmp_path: Path) -> None:
    text = "-- name: one\n-- row: LeaseKey without lease_epoch\nSELECT r->>{task_id}"
    assert loaded(tmp_path, text) == {"one": b"SELECT r->>0"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- row: Nothing\nSELECT 1", "some.sql, query one: there is no row Nothing in batch_rows.py"),
        ("-- row: LeaseKey\nSELECT r->>{task_id}, r->>{lease_epoch}, r->>{status}", "LeaseKey has no field status"),
        ("-- row: LeaseKey\nSELECT r->>{task_id}", "some.sql: no query reads lease_epoch of LeaseKey"),
        ("-- row: LeaseKey without epoch\nSELECT r->>{task_id}", "LeaseKey has no field epoch"),
        ("-- row: LeaseKey\n-- row: NodeOfJob\nSELECT r->>{task_id}", "write one line `-- row: CLASS`, not 2"),
        ("SELECT r->>{task_id}", "write one line `-- row: CLASS`, not 0"),
        ("SELECT (r->>1)::int", "a field is read by its number"),
    ],
)
def test_what_does_not_fit_to_the_rows_is_refused_when_it_is_loaded(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(QueryError, match=re.escape(complaint)):
        loaded(tmp_path, f"-- name: one\n{text}\n")


def test_rows_are_written_as_arrays_in_the_order_of_their_fields() -> None:
    row = JobChange("j", JobStatus.FAILED, error_message="why")
    assert FIELDS["JobChange"][:2] == ("job_id", "status")
    assert orjson.loads(encode_rows([row])) == [["j", "failed", None, None, "why", None]]


def test_every_sql_file_has_its_module() -> None:
    assert all(path.with_suffix(".py").exists() for path in FOLDER.glob("*.sql"))
    assert len(QUERIES) == len(set(QUERIES)) > 50
