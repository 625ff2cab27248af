"""A database of older models becomes today's, with its rows, while others write, and whenever the migrator dies."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from rmhdag.models.rows import ROWS, SCHEMA_VERSION
from rmhdag.store.connection import connect
from rmhdag.store.migration import apply, plan
from rmhdag.store.migration_steps import Backfill, ConcurrentChange
from rmhdag.store.schema_facts import read_live
from tests.store.comparing import assert_same_schema
from tests.store.older_models import OLDER_ROWS
from tests.store.waiting import backend_is_gone, migrator_waits_for, wait_until

WRITER = Path(__file__).with_name("steady_writer.py")
MIGRATE = """
import os, signal, sys
from rmhdag.store.migration import apply
def stop(step, number, total):
    if number == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
apply(sys.argv[1], on_step=stop)
"""


@pytest.fixture
def older_database(database: str) -> str:
    apply(database, rows=OLDER_ROWS)
    with psycopg.connect(database) as conn:
        conn.execute(
            """INSERT INTO dagapp.dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key,
            submitted_by, root_job_id)
            SELECT 'old-' || n, 'w', 1, 'h', 'me', 'me', 'old-' || n FROM generate_series(1, 3000) n"""
        )
        conn.execute("INSERT INTO dagapp.dag_node_states (job_id, node_id) SELECT job_id, 'n1' FROM dagapp.dag_jobs")
        conn.execute(
            """INSERT INTO dagapp.dag_job_events (job_id, seq, event_type, source_app)
            SELECT job_id, 1, 'job_started', 'old' FROM dagapp.dag_jobs"""
        )
    return database


@contextmanager
def writer(dsn: str, name: str) -> Iterator[dict[str, Any]]:
    """Writes while the block runs; the report is there after it."""
    report: dict[str, Any] = {}
    command = [sys.executable, str(WRITER), dsn, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "writing\n"
        yield report
        out, _ = process.communicate()
        report.update(json.loads(out))


def count(dsn: str, query: str) -> int:
    with psycopg.connect(dsn) as conn:
        found = conn.execute(query.encode()).fetchone()
    assert found
    return int(found[0])


def assert_like_new(dsn: str, postgres_dsn: str) -> None:
    """Every fact of the catalogue is that of a database that was made today."""
    with connect(dsn, "test") as upgraded, connect(postgres_dsn, "test") as fresh:
        found, wanted = read_live(upgraded, "dagapp"), read_live(fresh, "dagapp")
    assert_same_schema(found, wanted)


@pytest.mark.timeout(120)
def test_an_older_database_is_upgraded_while_a_writer_keeps_writing(older_database: str, shared_database: str) -> None:
    with pytest.raises(AssertionError):
        assert_like_new(older_database, shared_database)
    with writer(older_database, "a") as first, writer(older_database, "b") as second:
        made = apply(older_database)
    for report in (first, second):
        assert report["error"] is None
        assert report["written"] > 0
    assert any(isinstance(step, Backfill) for step in made.steps)
    assert any(isinstance(step, ConcurrentChange) for step in made.steps)
    assert_like_new(older_database, shared_database)
    assert plan(older_database).render() == "-- The database is up to date.\n"
    written = first["written"] + second["written"]
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_jobs") == 3000 + written
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_job_events") == 3000 + 2 * written
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_jobs WHERE status = 'completed'") == written
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_jobs WHERE updated_at IS NULL OR depth <> 0") == 0
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_job_events WHERE namespace <> 'default'") == 0
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_queue_messages WHERE created_at IS NULL") == 0


@pytest.mark.timeout(120)
def test_a_migration_that_is_killed_between_steps_is_finished_by_running_it_again(
    older_database: str, shared_database: str
) -> None:
    rounds = 0
    while True:
        command = [sys.executable, "-c", MIGRATE, older_database, "30"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        rounds += 1
    assert rounds >= 2
    assert_like_new(older_database, shared_database)


def test_an_index_whose_building_was_killed_is_built_again(migrated_database: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as conn:
        conn.execute("DROP INDEX dagapp.dag_jobs_list_idx")
        with connect(migrated_database, "test:blocker", idle_in_transaction_timeout_seconds=60) as blocker:
            # Building waits for this older transaction, with the index already in the catalogue.
            blocker.execute(
                """INSERT INTO dagapp.dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key,
                submitted_by, root_job_id) VALUES ('j', 'w', 1, 'h', 'me', 'me', 'j')"""
            )
            with subprocess.Popen([sys.executable, "-c", MIGRATE, migrated_database, "0"]) as process:
                pid = wait_until(lambda: migrator_waits_for(conn, "CREATE INDEX CONCURRENTLY"))
                process.kill()
            wait_until(lambda: backend_is_gone(conn, pid))
        validity = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'dagapp.dag_jobs_list_idx'::regclass"
        assert conn.execute(validity).fetchone() == (False,)
        titles = [step.title for step in apply(migrated_database).steps]
        assert titles == [
            "build index dag_jobs_list_idx again: it is invalid",
            f"record schema version {SCHEMA_VERSION}",
        ]
        assert conn.execute(validity).fetchone() == (True,)
    assert plan(migrated_database).is_empty


def test_a_lock_that_is_not_to_be_had_does_not_stop_the_writers(older_database: str) -> None:
    failures: list[BaseException] = []

    def migrate() -> None:
        try:
            apply(older_database)
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=migrate)
    with connect(older_database, "test:blocker", idle_in_transaction_timeout_seconds=60) as blocker:
        blocker.execute("SELECT * FROM dagapp.dag_jobs LIMIT 1")
        thread.start()
        with psycopg.connect(older_database, autocommit=True, options="-c lock_timeout=800") as conn:
            for round_ in range(3):
                wait_until(lambda: migrator_waits_for(conn, "ALTER TABLE dagapp.dag_jobs"))
                conn.execute("UPDATE dagapp.dag_jobs SET version = version + 1 WHERE job_id = 'old-1'")
                assert thread.is_alive(), (round_, failures)
    thread.join()
    assert failures == []
    assert plan(older_database).is_empty
    assert count(older_database, "SELECT version FROM dagapp.dag_jobs WHERE job_id = 'old-1'") == 3


def test_two_migrators_at_once_do_the_work_once(older_database: str, database: str) -> None:
    made: list[int] = []

    def migrate() -> None:
        made.append(len(apply(older_database).steps))

    threads = [Thread(target=migrate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made)[:2] == [0, 0]
    assert sorted(made)[2] > 40
    assert plan(older_database).is_empty


def test_rows_that_move_during_a_backfill_are_filled_too(older_database: str) -> None:
    with psycopg.connect(older_database, autocommit=True) as conn:
        moved = 0

        def move(step: Any, number: int, total: int) -> None:
            """Between adding the column and filling it, and before each later step, rows are written anew."""
            nonlocal moved
            conn.execute("UPDATE dagapp.dag_jobs SET version = version + 1 WHERE job_id LIKE 'old-1%'")
            moved += isinstance(step, Backfill)

        apply(older_database, on_step=move)
    assert moved == 2
    assert count(older_database, "SELECT count(*) FROM dagapp.dag_jobs WHERE updated_at IS NULL") == 0


def test_steps_are_announced_in_order(database: str) -> None:
    seen: list[tuple[str, int, int]] = []
    made = apply(database, on_step=lambda step, number, total: seen.append((step.title, number, total)))
    assert [title for title, _, _ in seen] == [step.title for step in made.steps]
    assert [number for _, number, _ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, _, total in seen} == {len(seen)}
    assert len([title for title, _, _ in seen if title.startswith("create table ")]) == len(ROWS)
