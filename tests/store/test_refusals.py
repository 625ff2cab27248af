"""What a migration will not do, each with what, where, why and how else; and that it never drops anything."""

import re
from dataclasses import replace
from typing import Annotated, Any

import psycopg
import pytest

from rmhdag.models.columns import NumberedByDatabase, Timestamp, bigint, varchar
from rmhdag.models.jobs import Job
from rmhdag.models.registry import Handler
from rmhdag.models.rows import ROWS, SCHEMA_VERSION
from rmhdag.models.table import Check, Index, Row
from rmhdag.store.connection import connect
from rmhdag.store.migration import MigrationFailed, apply, plan
from rmhdag.store.migration_steps import MigrationRefused
from rmhdag.store.schema_facts import read_live
from rmhdag.store.schema_version import SchemaMismatch, check_version
from tests.store.older_models import OLDER_ROWS, changed, reduced

HANDLER = "INSERT INTO dagapp.dag_handlers (handler, version, queue) VALUES (%s, '1', 'q')"


def with_handler(model: type[Row]) -> tuple[type[Row], ...]:
    return tuple(model if row is Handler else row for row in ROWS)


def extended(model: type[Row], name: str, kind: Any) -> type[Row]:
    """The model with one more field, which has no default."""

    class Extended(model):  # type: ignore[misc, valid-type]
        __annotations__ = {name: kind}

    Extended.__name__ = model.__name__
    return Extended


def narrowed() -> type[Row]:
    return changed(Handler, types={"version": Annotated[str, varchar(8)]})


def other_index() -> type[Row]:
    index = Index("queue", ("queue",), unique=True)
    return changed(Handler, table=replace(Handler.table, indexes=(index,)))


def partitioned() -> type[Row]:
    table = replace(Handler.table, key=("handler", "registered_at"), partition_by="registered_at")
    return changed(Handler, table=table)


def broken_check() -> type[Row]:
    return changed(Handler, table=replace(Handler.table, checks=(Check("short", "length(handler) < 2"),)))


# (change of the live database, models, refused place, parts of the message)
CASES: list[Any] = [
    pytest.param(
        "", extended(Handler, "owner", Annotated[str, varchar(64)]), "dag_handlers.owner",
        ["cannot be added", "existing rows have no value", "Remedy: give the field a default"], id="required-column",
    ),
    pytest.param(
        "", extended(Handler, "number", NumberedByDatabase), "dag_handlers.number",
        ["cannot be added"], id="identity-column",
    ),
    pytest.param(
        "", narrowed(), "dag_handlers.version",
        ['character varying(128) COLLATE "C" in the database', 'character varying(8) COLLATE "C" in the models'],
        id="narrower-type",
    ),
    pytest.param(
        "", changed(Handler, types={"queue": Annotated[int, bigint()] | None}), "dag_handlers.queue",
        ["has another type", "bigint in the models", "add a new column and copy"], id="other-type",
    ),
    pytest.param(
        "ALTER TABLE dagapp.dag_handlers ALTER COLUMN queue TYPE varchar(64) COLLATE \"default\"", Handler,
        "dag_handlers.queue", ["has another type"], id="other-collation",
    ),
    pytest.param(
        "ALTER TABLE dagapp.dag_handlers ADD COLUMN mine integer; UPDATE dagapp.dag_handlers SET mine = 1;"
        "ALTER TABLE dagapp.dag_handlers ALTER COLUMN mine SET NOT NULL", Handler, "dag_handlers.mine",
        ["required but unknown", "every insert would fail", "ALTER COLUMN mine DROP NOT NULL"], id="extra-required",
    ),
    pytest.param(
        "ALTER TABLE dagapp.dag_handlers ALTER COLUMN version DROP NOT NULL;"
        "UPDATE dagapp.dag_handlers SET version = NULL", Handler, "dag_handlers.version",
        ["cannot become required", "some rows have no value", "fill it: UPDATE dagapp.dag_handlers"], id="nulls",
    ),
    pytest.param(
        "", other_index(), "dag_handlers",
        ["unique index dag_handlers_queue_idx", "(queue) = ('q',)", "remove or change the duplicates"], id="duplicates",
    ),
    pytest.param(
        "", broken_check(), "dag_handlers",
        ["check dag_handlers_short_check", "some rows break it", "SELECT * FROM dagapp.dag_handlers WHERE NOT"],
        id="broken-check",
    ),
    pytest.param(
        "ALTER TABLE dagapp.dag_handlers DROP CONSTRAINT dag_handlers_pkey", Handler, "dag_handlers",
        ["another primary key", "it is missing in the database and btree (handler) in the models"], id="key",
    ),
    pytest.param(
        "", partitioned(), "dag_handlers",
        ["is not partitioned", "cannot be given or lose partitions in place"], id="partitioning",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("prepare", "model", "where", "parts"), CASES)
def test_what_cannot_be_done_safely_is_refused_by_place_and_reason(
    migrated_database: str, prepare: str, model: type[Row], where: str, parts: list[str]
) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute(HANDLER, ["one"])
        conn.execute(HANDLER, ["two"])
        conn.execute(prepare.encode())
        before = read_live(conn, "dagapp")
        with pytest.raises(MigrationRefused) as caught:
            apply(migrated_database, rows=with_handler(model))
        assert f"dagapp.{where}" in [refusal.where for refusal in caught.value.refusals]
        for part in parts:
            assert part in str(caught.value)
        assert read_live(conn, "dagapp") == before, "a refused migration changes nothing"


def test_required_columns_may_be_added_to_an_empty_table(migrated_database: str) -> None:
    for name, kind in (("owner", Annotated[str, varchar(64)]), ("number", NumberedByDatabase)):
        apply(migrated_database, rows=with_handler(extended(Handler, name, kind)))
        with psycopg.connect(migrated_database) as conn:
            conn.execute(f"ALTER TABLE dagapp.dag_handlers DROP COLUMN {name}".encode())


def test_what_is_there_beyond_the_models_is_left_and_told(migrated_database: str) -> None:
    extras = """
        CREATE TABLE dagapp.mine (a integer);
        ALTER TABLE dagapp.dag_jobs ADD COLUMN note text, ADD COLUMN score integer NOT NULL DEFAULT 0;
        CREATE INDEX dag_jobs_note ON dagapp.dag_jobs (note);
        ALTER TABLE dagapp.dag_jobs ADD CONSTRAINT note_short CHECK (length(note) < 9);
        ALTER TYPE dagapp.job_status ADD VALUE 'paused';
        ALTER TABLE dagapp.dag_jobs ALTER COLUMN correlation_id SET DEFAULT 'none';
        CREATE VIEW dagapp.my_view AS SELECT job_id FROM dagapp.dag_jobs;
        ALTER TABLE dagapp.dag_jobs SET (autovacuum_enabled = true);
        INSERT INTO dagapp.mine VALUES (1)"""
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        for statement in extras.split(";"):
            conn.execute(statement.encode())
        before = read_live(conn, "dagapp")
        older = tuple(changed(Job, table=reduced(Job.table, indexes=("list",))) if row is Job else row for row in ROWS)
        assert [step.title for step in plan(migrated_database, rows=older).steps] == []
        made = apply(migrated_database)
        assert read_live(conn, "dagapp") == before
        assert conn.execute("SELECT a FROM dagapp.mine").fetchone() == (1,)
    assert made.notices == [
        "check note_short of dag_jobs is not in the models",
        "column dag_jobs.correlation_id keeps its default 'none'::character varying",
        "column dag_jobs.note is not in the models",
        "column dag_jobs.score is not in the models",
        "index dag_jobs_note is not in the models",
        "label paused of type job_status is not in the models",
        "table mine is not in the models",
    ]
    assert made.render().startswith("-- left alone: check note_short")


def test_no_step_ever_drops_what_holds_data(database: str) -> None:
    apply(database, rows=OLDER_ROWS)
    upward, backward = apply(database), plan(database, rows=OLDER_ROWS)
    assert upward.steps
    assert backward.steps
    for step in [*upward.steps, *backward.steps]:
        for statement in step.statements:
            assert not re.search(r"\b(DROP (TABLE|COLUMN|TYPE|SCHEMA)|TRUNCATE)\b", statement, re.IGNORECASE)


def test_a_newer_database_is_refused(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as conn:
        conn.execute("UPDATE dagapp.dag_schema_meta SET schema_version = 7000")
    made = plan(migrated_database)
    assert made.steps == []
    assert made.render().startswith(
        f"-- REFUSED dagapp.dag_schema_meta: the database has schema version 7000, this program {SCHEMA_VERSION}: "
    )
    with pytest.raises(MigrationRefused, match="use the newer program"):
        apply(migrated_database)


def test_programs_learn_whether_they_may_work(database: str, migrated_database: str) -> None:
    with (
        connect(database, "test") as conn,
        pytest.raises(SchemaMismatch, match=r"not set up .* run `rmhdag db migrate`"),
    ):
        check_version(conn, "dagapp")
    with connect(migrated_database, "test") as conn:
        check_version(conn, "dagapp")
        with pytest.raises(
            SchemaMismatch,
            match=f"has version {SCHEMA_VERSION}, this program needs {SCHEMA_VERSION + 1}: run `rmhdag db migrate`",
        ):
            check_version(conn, "dagapp", code_version=SCHEMA_VERSION + 1)
        conn.execute("UPDATE dagapp.dag_schema_meta SET schema_version = 7000")
        check_version(conn, "dagapp")
        conn.execute("UPDATE dagapp.dag_schema_meta SET oldest_code_version = 7000")
        with pytest.raises(SchemaMismatch, match=f"version 7000 or newer, this one is {SCHEMA_VERSION}: update rmhdag"):
            check_version(conn, "dagapp")


@pytest.mark.parametrize(
    ("table", "process"),
    [
        ("dag_orchestrators", "(owner_id, host, process_id, version) VALUES ('a', 'h', 1, '0')"),
        ("dag_workers", "(worker_id, host, process_id, version, slots) VALUES ('a', 'h', 1, '0', 1)"),
    ],
)
def test_a_schema_that_shuts_older_programs_out_waits_until_they_are_stopped(
    migrated_database: str, table: str, process: str
) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute("UPDATE dagapp.dag_schema_meta SET schema_version = 1, oldest_code_version = 1")
        conn.execute(f"INSERT INTO dagapp.{table} {process}".encode())
        with pytest.raises(MigrationRefused, match=r"1 .* of an older version of rmhdag .* stop them all, migrate"):
            apply(migrated_database)
        conn.execute(f"UPDATE dagapp.{table} SET heartbeat_at = heartbeat_at - interval '1 hour'".encode())
        apply(migrated_database)
        assert plan(migrated_database).is_empty


def test_a_second_migrator_gives_up_with_a_word(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute("SELECT pg_advisory_lock(hashtextextended('rmhdag migration of dagapp', 0))")
        with pytest.raises(MigrationFailed, match="another migration of schema dagapp has been running"):
            apply(migrated_database, give_up_seconds=0)


def test_a_lock_that_is_never_free_is_named(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as blocker:
        blocker.execute("SELECT 1 FROM dagapp.dag_handlers")
        with pytest.raises(MigrationFailed) as caught:
            apply(migrated_database, rows=with_handler(extended(Handler, "at", Timestamp)), give_up_seconds=0)
    assert "in schema dagapp, add column dag_handlers.at: canceling statement due to lock timeout" in str(caught.value)
    assert "migrate again; it continues from here" in str(caught.value)


def test_missing_rights_are_told_with_the_step(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(
            "DO $$ BEGIN CREATE ROLE guest LOGIN PASSWORD 'guest'; EXCEPTION WHEN duplicate_object THEN END $$"
        )
    guest = psycopg.conninfo.make_conninfo(database, user="guest", password="guest")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(f"REVOKE TEMPORARY ON DATABASE {conn.info.dbname} FROM PUBLIC".encode())
        with pytest.raises(MigrationFailed, match=r"permission denied .*GRANT TEMPORARY ON DATABASE test_\w+ TO guest"):
            apply(guest)
        conn.execute(f"GRANT TEMPORARY ON DATABASE {conn.info.dbname} TO guest".encode())
    with pytest.raises(
        MigrationFailed, match=r"step 1 of \d+ in schema dagapp, create schema dagapp: permission denied"
    ):
        apply(guest)
