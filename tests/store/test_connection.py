"""Connections limit themselves, whatever the server's defaults are."""

import psycopg
import pytest

from rmhdag.store.connection import SearchPathError, connect, enter_schema


def test_connections_have_limits_and_a_name(database: str) -> None:
    with connect(database, "orchestrator:o1", lock_timeout_seconds=1.5) as conn:
        shown = {
            name: conn.execute(f"SHOW {name}".encode()).fetchone()
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "application_name")
        }
        assert {name: found and found[0] for name, found in shown.items()} == {
            "statement_timeout": "10s",
            "lock_timeout": "1500ms",
            "idle_in_transaction_session_timeout": "5s",
            "application_name": "orchestrator:o1",
        }
        parameters = conn.info.get_parameters()
    assert {name: parameters[name] for name in parameters if name.startswith("keepalives")} == {
        "keepalives": "1",
        "keepalives_idle": "2",
        "keepalives_interval": "1",
        "keepalives_count": "3",
    }


def test_small_queries_are_not_compiled(database: str) -> None:
    """The price of a table that is read in spite of `enable_seqscan = off` would make a server with LLVM do so."""
    with connect(database, "test", reads_whole_tables=False, autocommit=True) as conn:
        conn.execute("CREATE TEMPORARY TABLE numbers AS SELECT 1 AS n")
        plan = "\n".join(
            row[0] for row in conn.execute("EXPLAIN (ANALYZE) SELECT n + 1 FROM numbers WHERE n > 0").fetchall()
        )
    assert "Seq Scan" in plan
    assert "JIT" not in plan


def test_options_of_the_dsn_are_kept(database: str) -> None:
    dsn = psycopg.conninfo.make_conninfo(database, options="-c work_mem=7MB")
    with connect(dsn, "test") as conn:
        assert conn.execute("SHOW work_mem").fetchone() == ("7MB",)
        assert conn.execute("SHOW lock_timeout").fetchone() == ("2s",)


def test_behind_a_pooler_nothing_is_asked_of_the_session(database: str) -> None:
    with connect(database, "test", pooled=True) as conn:
        assert conn.prepare_threshold is None
        assert conn.execute("SHOW lock_timeout").fetchone() == ("0",)
        with pytest.raises(SearchPathError, match='SET search_path = "dagapp"'):
            enter_schema(conn, "dagapp", pooled=True)
        conn.execute("CREATE SCHEMA dagapp")
        conn.execute("SET LOCAL search_path TO dagapp")  # as a role brings it
        enter_schema(conn, "dagapp", pooled=True)


def test_a_schema_of_any_name_is_entered(database: str) -> None:
    with connect(database, "test") as conn:
        conn.execute('CREATE SCHEMA "Odd, name"')
        enter_schema(conn, "Odd, name")
        assert conn.execute("SELECT current_schema()").fetchone() == ("Odd, name",)


def test_a_statement_that_waits_too_long_for_a_lock_gives_up(database: str) -> None:
    with connect(database, "holder") as holder, connect(database, "waiter", lock_timeout_seconds=0.05) as waiter:
        holder.execute("SELECT pg_advisory_xact_lock(1)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            waiter.execute("SELECT pg_advisory_xact_lock(1)")
