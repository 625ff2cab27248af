"""What a model holds is what the database gives back."""

from typing import Any

import psycopg
from hypothesis import HealthCheck, given, settings
from psycopg import sql

from rmhdag.models.events import EventType
from rmhdag.models.history import OrchestratorEvent
from rmhdag.models.jobs import Job
from rmhdag.models.queues import InboxKind, InboxRow
from rmhdag.models.rows import ROWS
from rmhdag.models.table import Row
from tests.store.row_examples import NOW, rows_of
from tests.store.rows import insert_rows, read_rows, row_values

EVERYTHING = sql.SQL("true")


def test_every_row_comes_back_as_it_went_in(conn: psycopg.Connection[Any]) -> None:
    # What the migration has written.
    conn.execute("DELETE FROM dagapp.dag_schema_meta")
    conn.execute("TRUNCATE dagapp.dag_audit")
    for model in ROWS:
        check_round_trip(conn, model)


def check_round_trip(conn: psycopg.Connection[Any], model: type[Row]) -> None:
    @settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(rows_of(model))
    def round_trip(row: Row) -> None:
        with conn.transaction(force_rollback=True):
            insert_rows(conn, "dagapp", [row])
            assert read_rows(conn, "dagapp", model, EVERYTHING) == [row]

    round_trip()


def test_what_the_database_makes_is_filled_in(conn: psycopg.Connection[Any]) -> None:
    rows = [
        OrchestratorEvent(owner_id="o1", event_type=EventType.ORCHESTRATOR_STARTED, created_at=NOW, source_app="test")
        for _ in range(3)
    ]
    insert_rows(conn, "dagapp", rows)
    numbers = [row.event_id for row in read_rows(conn, "dagapp", OrchestratorEvent, EVERYTHING)]
    assert len(set(numbers)) == 3
    assert None not in numbers


def test_defaults_of_the_models_are_defaults_of_the_table(conn: psycopg.Connection[Any]) -> None:
    row = InboxRow(job_id="j1", kind=InboxKind.COMMAND, created_at=NOW)
    conn.execute("INSERT INTO dagapp.dag_inbox (job_id, kind, created_at) VALUES ('j1', 'command', %s)", [NOW])
    (stored,) = read_rows(conn, "dagapp", InboxRow, sql.SQL("job_id = %s"), ["j1"])
    assert stored.model_copy(update={"inbox_id": None}) == row


def test_nothing_to_insert_is_fine(conn: psycopg.Connection[Any]) -> None:
    insert_rows(conn, "dagapp", [])


@given(rows_of(Job))
@settings(max_examples=20)
def test_parameters_name_every_column(row: Row) -> None:
    assert set(row_values(row)) == set(Job.model_fields)
