"""What is late is found: rows in which something is owed for too long are planted, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rmhdag.lab.chaos import checker
from rmhdag.lab.chaos.campaign import AUDIT, describe_kind
from rmhdag.lab.chaos.checker import LIVENESS, LONG_AGO, Checker
from rmhdag.lab.chaos.workflows import small_kinds
from rmhdag.services.submissions import submit
from rmhdag.store.connection import connect

# What becomes of a fan-out that a living orchestrator has owned for 20 s and runs, and what must be noticed.
PLANTED = {
    "no_owned_job_stays_pending": """
        UPDATE dag_jobs SET status = 'pending', started_at = NULL;
        UPDATE chaos_owners SET at = now() - interval '40 s'
    """,
    "every_loop_comes_round": """UPDATE dag_orchestrators SET stats = '{"loops": {"advance": 20.5}}'""",
    "every_thread_lives": """UPDATE dag_orchestrators SET stats = '{"threads": {"fan_in": 1}}'""",
    "nothing_falls_into_the_net": """
        INSERT INTO dag_orchestrator_events (owner_id, source_app, event_type, event_data)
        VALUES ('o', 'test', 'orchestrator_stall', '{"owed_jobs": 1, "job_id": "j", "why": "it never began"}')
    """,
    "nothing_in_memory_outgrows_its_bound": """UPDATE dag_orchestrators SET stats = '{"sizes": {"timers": 20001}}'""",
    "ready_fan_ins_are_served": """
        UPDATE dag_node_states SET status = 'ready', ready_at = now() - interval '11 s' WHERE node_id = 'join'
    """,
    "due_retries_are_served": """
        UPDATE dag_node_states SET next_attempt_at = now() - interval '11 s' WHERE node_id = 'split'
    """,
    "passed_deadlines_are_served": """
        UPDATE dag_node_states SET deadline_at = now() - interval '31 s' WHERE node_id = 'split';
        UPDATE chaos_owners SET at = now() - interval '40 s'
    """,
    "the_inbox_is_read": """
        INSERT INTO dag_inbox (owner_id, job_id, kind, created_at)
        SELECT 'o', job_id, 'command', now() - interval '11 s' FROM dag_jobs
    """,
}


OF_ANY_TIME = {"every_thread_lives", "nothing_falls_into_the_net", "nothing_in_memory_outgrows_its_bound"}


@pytest.fixture
def conn(migrated_database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated_database, "test", autocommit=True) as open_conn:
        open_conn.execute("SET search_path TO dagapp")
        open_conn.execute(AUDIT)
        yield open_conn


def checker_of(dsn: str, **more: Any) -> Checker:
    return Checker(lambda: dsn, "dagapp", small_kinds(), 60, **more)


def own_a_fan_out(conn: psycopg.Connection[Any]) -> str:
    """Owned for 20 s by an orchestrator that was heard just now."""
    describe_kind(conn, small_kinds()["chaos_fan_out"])
    conn.execute("INSERT INTO dag_orchestrators (owner_id, host, process_id, version) VALUES ('o', 'h', 1, '1')")
    job_id = submit(conn, "chaos_fan_out", {"x": 7}, submitted_by="test")
    conn.execute("UPDATE dag_jobs SET owner_id = 'o', owner_epoch = 1, status = 'running', started_at = now()")
    conn.execute("UPDATE chaos_owners SET at = now() - interval '20 s'")
    conn.execute(
        "INSERT INTO dag_node_states (job_id, node_id, status)"
        " SELECT %s, unnest(ARRAY['split', 'join', 'after']), 'pending'",
        [job_id],
    )
    return job_id


def late(conn: psycopg.Connection[Any], checker: Checker) -> set[str]:
    checker.check(conn, LONG_AGO, 60)
    limits = {*LIVENESS, "workers_know_their_leases"}
    return {violation.invariant for violation in checker.violations if violation.invariant in limits}


def test_nothing_is_late_at_first(conn: psycopg.Connection[Any], migrated_database: str) -> None:
    own_a_fan_out(conn)
    assert late(conn, checker_of(migrated_database)) == set()


@pytest.mark.parametrize("invariant", PLANTED)
def test_what_is_late_is_found(conn: psycopg.Connection[Any], migrated_database: str, invariant: str) -> None:
    own_a_fan_out(conn)
    conn.execute(PLANTED[invariant].encode())
    assert late(conn, checker_of(migrated_database)) == {invariant}


@pytest.mark.parametrize("invariant", sorted(PLANTED.keys() - {"nothing_in_memory_outgrows_its_bound"}))
def test_a_fault_excuses_what_is_late(conn: psycopg.Connection[Any], migrated_database: str, invariant: str) -> None:
    own_a_fan_out(conn)
    conn.execute(PLANTED[invariant].encode())
    assert late(conn, checker_of(migrated_database, faults=True, grace=lambda: 60.0)) == set()


@pytest.mark.parametrize("invariant", sorted(PLANTED.keys() - OF_ANY_TIME))
def test_what_a_silent_owner_owes_is_not_late(
    conn: psycopg.Connection[Any], migrated_database: str, invariant: str
) -> None:
    own_a_fan_out(conn)
    conn.execute(PLANTED[invariant].encode())
    conn.execute("UPDATE dag_orchestrators SET heartbeat_at = now() - interval '11 s'")
    assert late(conn, checker_of(migrated_database)) == set()


def test_every_limit_is_planted() -> None:
    assert LIVENESS.keys() == PLANTED.keys()


def test_a_pending_job_is_late_sooner_if_others_were_served(
    conn: psycopg.Connection[Any], migrated_database: str
) -> None:
    first = own_a_fan_out(conn)
    conn.execute("UPDATE dag_jobs SET status = 'pending', started_at = NULL")
    assert late(conn, checker_of(migrated_database)) == set()
    submit(conn, "chaos_fan_out", {"x": 8}, submitted_by="test")
    conn.execute(
        "UPDATE dag_jobs SET owner_id = 'o', owner_epoch = 1, status = 'running', started_at = now() - interval '4 s'"
        " WHERE job_id <> %s",
        [first],
    )
    conn.execute("UPDATE chaos_owners SET at = now() - interval '10 s' WHERE job_id <> %s", [first])
    assert late(conn, checker_of(migrated_database)) == {"no_owned_job_stays_pending"}


@pytest.mark.parametrize(
    ("stats", "expected"),
    [("{}", {"the_inbox_is_read"}), ('{"cycle_ms_avg": 100, "cycle_ms_p99": 500}', set())],
    ids=["no turns", "slow turns"],
)
def test_who_has_much_to_do_is_given_the_time_that_it_takes(
    conn: psycopg.Connection[Any], migrated_database: str, stats: str, expected: set[str]
) -> None:
    own_a_fan_out(conn)
    conn.execute("UPDATE dag_orchestrators SET stats = %s", [stats])
    conn.execute(
        "INSERT INTO dag_inbox (owner_id, job_id, kind, created_at)"
        " SELECT 'o', job_id, 'command', now() - interval '14 s' FROM dag_jobs, generate_series(1, 500)"
    )
    assert late(conn, checker_of(migrated_database)) == expected
    conn.execute("UPDATE dag_inbox SET created_at = now() - interval '16 s'")
    assert late(conn, checker_of(migrated_database)) == {"the_inbox_is_read"}


def test_what_is_kept_of_ended_jobs_is_found(conn: psycopg.Connection[Any], migrated_database: str) -> None:
    checker = checker_of(migrated_database)
    own_a_fan_out(conn)
    conn.execute("""UPDATE dag_orchestrators SET stats = '{"sizes": {"turns": 200}}'""")
    checker.wait_until_memory_is_free(conn, 0)
    assert not checker.violations
    conn.execute("""UPDATE dag_orchestrators SET stats = '{"sizes": {"turns": 201}}'""")
    checker.wait_until_memory_is_free(conn, 0)
    assert [violation.invariant for violation in checker.violations] == ["ended_jobs_are_forgotten"]


def lease(conn: psycopg.Connection[Any], stats: str, claimed: str) -> None:
    conn.execute(
        "INSERT INTO dag_workers (worker_id, host, process_id, version, slots, queues, stats)"
        " VALUES ('w', 'h', 1, '1', 2, '[\"q\"]', %s)",
        [stats],
    )
    conn.execute(
        "INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,"
        " lease_epoch, claimed_at) SELECT 't', job_id, 'split', 'q', 'h', 1, 'f', 'w', 1, now() - %s::interval"
        " FROM dag_jobs",
        [claimed],
    )


@pytest.mark.parametrize(
    ("stats", "claimed", "expected"),
    [
        ('{"tasks_held": 0}', "6 s", {"workers_know_their_leases"}),
        ('{"tasks_held": 1}', "6 s", set()),
        ('{"tasks_held": 0}', "1 s", set()),
        ("{}", "6 s", set()),
    ],
    ids=["unknown", "known", "just claimed", "says nothing"],
)
def test_a_lease_that_its_worker_does_not_know_is_found_at_the_second_look(
    conn: psycopg.Connection[Any],
    migrated_database: str,
    monkeypatch: pytest.MonkeyPatch,
    stats: str,
    claimed: str,
    expected: set[str],
) -> None:
    monkeypatch.setattr("rmhdag.lab.chaos.checker.UNKNOWN_SECONDS", 0.0)
    own_a_fan_out(conn)
    lease(conn, stats, claimed)
    checker = checker_of(migrated_database)
    assert late(conn, checker) == set()
    assert late(conn, checker) == expected


@pytest.mark.parametrize("name", ["liveness.sql", "invariants.sql"])
def test_ages_are_those_in_the_snapshot(name: str) -> None:
    """A soak at a load of 14 ended because its checks took ten seconds: rows that were handled a second after the
    snapshot looked as if nobody had read them since.
    """
    lines = Path(checker.__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "clock_timestamp" in line and not line.startswith("--")] == []
