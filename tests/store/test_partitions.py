"""Days come and go while rows are written."""

from datetime import date, timedelta
from threading import Barrier, Thread
from typing import Any

import psycopg

from rmhdag.models.history import JobEvent
from rmhdag.models.rows import ROWS
from rmhdag.store.connection import connect
from rmhdag.store.migration import plan
from rmhdag.store.partitions import DayPartition, ensure_partitions, missing_partitions

EVENT = """INSERT INTO dagapp.dag_job_events (job_id, seq, event_type, source_app, created_at)
    VALUES ('j', %s, 'job_created', 'test', %s)"""
PLACES = "SELECT seq, tableoid::regclass::text FROM dagapp.dag_job_events ORDER BY seq"


def today(conn: psycopg.Connection[Any]) -> date:
    found = conn.execute("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date").fetchone()
    assert found
    day: date = found[0]
    return day


def test_partitions_are_made_for_the_coming_days_once(migrated_database: str) -> None:
    with connect(migrated_database, "test", autocommit=True) as conn:
        assert ensure_partitions(conn, "dagapp", days_ahead=7) == []
        made = ensure_partitions(conn, "dagapp", days_ahead=9)
        days = [today(conn) + timedelta(days=offset) for offset in (8, 9)]
        assert made == [f"{table}_{day:%Y%m%d}" for table in ("dag_job_events", "dag_task_logs") for day in days]
        assert missing_partitions(conn, "dagapp", 9) == []
    assert plan(migrated_database).is_empty


def test_rows_go_to_their_utc_day_whatever_the_time_zone(migrated_database: str) -> None:
    with connect(migrated_database, "test", autocommit=True) as conn:
        conn.execute("SET timezone = 'Pacific/Kiritimati'")
        day = today(conn) + timedelta(days=1)
        ensure_partitions(conn, "dagapp")
        conn.execute(EVENT, [1, f"{day} 00:00:00+00"])
        conn.execute(EVENT, [2, f"{day} 23:59:59.999999+00"])
        name = f"dagapp.dag_job_events_{day:%Y%m%d}"
        assert list(conn.execute(PLACES)) == [(1, name), (2, name)]


def test_rows_of_a_day_without_partition_are_kept_and_moved_when_it_is_made(migrated_database: str) -> None:
    with connect(migrated_database, "test", autocommit=True) as conn:
        near, far = today(conn) + timedelta(days=10), today(conn) + timedelta(days=300)
        conn.execute(EVENT, [1, f"{near} 12:00:00+00"])
        conn.execute(EVENT, [2, f"{far} 12:00:00+00"])
        assert {place for _, place in conn.execute(PLACES)} == {"dagapp.dag_job_events_default"}
        ensure_partitions(conn, "dagapp", days_ahead=10)
        assert list(conn.execute(PLACES)) == [
            (1, f"dagapp.dag_job_events_{near:%Y%m%d}"),
            (2, "dagapp.dag_job_events_default"),
        ]
    assert plan(migrated_database).is_empty


def test_a_new_day_does_not_wait_for_a_transaction_that_writes_today(migrated_database: str) -> None:
    with connect(migrated_database, "writer") as writer, connect(migrated_database, "test", autocommit=True) as conn:
        writer.execute(EVENT, [1, f"{today(conn)} 00:00:00+00"])
        conn.execute("SET lock_timeout = '100ms'")
        assert ensure_partitions(conn, "dagapp", days_ahead=8)
        writer.execute(EVENT, [2, f"{today(conn)} 00:00:01+00"])


def test_two_processes_may_make_the_same_days(migrated_database: str) -> None:
    made: list[str] = []
    start = Barrier(2, timeout=60)

    def make() -> None:
        with connect(migrated_database, "test", autocommit=True) as conn:
            start.wait()
            made.extend(ensure_partitions(conn, "dagapp", days_ahead=12))

    threads = [Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(set(made)) == 10
    assert plan(migrated_database).is_empty


def test_partitions_carry_the_storage_parameters(migrated_database: str) -> None:
    with connect(migrated_database, "test", autocommit=True) as conn:
        partition = DayPartition("dagapp", JobEvent.table, today(conn) + timedelta(days=30))
        conn.execute(partition.ddl().encode())
        found = conn.execute("SELECT reloptions FROM pg_class WHERE relname = %s", [partition.name]).fetchone()
    assert found is not None
    assert "autovacuum_vacuum_insert_scale_factor=0.1" in found[0]
    assert sum(row.table.partition_by is not None for row in ROWS) == 2
