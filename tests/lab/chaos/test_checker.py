"""Every invariant finds what it is there for: rows that break it are planted, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rmhdag.lab.chaos.campaign import AUDIT, describe_kind
from rmhdag.lab.chaos.checker import INVARIANTS, LONG_AGO, SETTLEMENT, Checker
from rmhdag.lab.chaos.workflows import small_kinds
from rmhdag.services.submissions import submit
from rmhdag.store.connection import connect

# What is done to a well-ended chain, and the invariant that must notice.
PLANTED = {
    "i1_an_end_has_one_event": "DELETE FROM dag_job_events WHERE event_type = 'job_completed'",
    "i2_i3_i10_witnessed": "UPDATE dag_jobs SET status = 'failed'",
    "i4_nothing_starts_early": "UPDATE dag_node_states SET ready_at = '2000-01-01' WHERE node_id = 'n3'",
    "i6_one_result_per_node": """
        INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status)
        SELECT 'again', 1, job_id, 'n3', 1, 'completed' FROM dag_jobs
    """,
    "i6_completed_means_a_result": "DELETE FROM dag_task_results WHERE node_id = 'n3'",
    "i7_attempts_are_bounded": "UPDATE dag_node_states SET attempt = 5, retry_count = 4 WHERE node_id = 'n3'",
    "i7_attempts_are_logged": """
        INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status, error_kind)
        SELECT 'again', 1, job_id, 'n3', 1, 'failed', 'handler_error' FROM dag_jobs
    """,
    "i8_events_have_no_gaps": "DELETE FROM dag_job_events WHERE seq = 4",
    "i8_children_are_all_there": """
        UPDATE dag_node_states SET output = '{"total": 3, "dynamic_nodes": {}}', task_id = NULL WHERE node_id = 'n3'
    """,
    "i9_nothing_completes_twice": """
        INSERT INTO dag_job_events (job_id, seq, event_type, node_id, source_app)
        SELECT job_id, 100, 'node_completed', 'n3', 'test' FROM dag_jobs
    """,
    "i10_the_outbox_is_delivered": """
        INSERT INTO dag_outbox (message_id, destination, created_at, body)
        VALUES ('m', 'd', now() - interval '1 hour', '{}')
    """,
    "i10_settled_means_tried": """
        INSERT INTO dag_outbox (message_id, destination, status, settled_at, body)
        VALUES ('m', 'd', 'delivered', now(), '{}')
    """,
    "i10_ends_are_told": "UPDATE dag_jobs SET callback_url = 'https://example.org/'",
    "i10_callbacks_are_tried": """
        INSERT INTO dag_callbacks (callback_id, job_id, url, endpoint_url, host, next_attempt_at, body)
        VALUES ('c', 'j', 'u', 'u', 'h', now() - interval '1 hour', '{}')
    """,
    "i11_no_task_of_the_dead": """
        INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key, worker_id,
            lease_epoch, claimed_at)
        SELECT 't', job_id, 'n3', 'q', 'h', 1, 'f', 'gone', 1, now() - interval '1 hour' FROM dag_jobs
    """,
    "i11_no_job_of_the_dead": """
        INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,
            root_job_id, created_at, updated_at)
        SELECT 'left', workflow_id, 1, workflow_hash, 'f', 's', 'left', '2000-01-01', '2000-01-01' FROM dag_jobs
    """,
    "ends_are_whole": "UPDATE dag_node_states SET status = 'running', completed_at = NULL WHERE node_id = 'n3'",
    "approvals_are_listed_while_they_wait": """
        INSERT INTO dag_waiting_approvals (job_id, node_id) SELECT job_id, 'n3' FROM dag_jobs
    """,
    "no_task_outlives_its_job": """
        INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key)
        SELECT 't', job_id, 'n3', 'q', 'h', 1, 'f' FROM dag_jobs
    """,
    "payloads_are_there_for_their_jobs": """
        INSERT INTO dag_payload_uses (sha256, holder) SELECT repeat('a', 64), job_id FROM dag_jobs
    """,
    "labels_go_with_their_jobs": """
        INSERT INTO dag_job_labels (job_id, key, value, created_at) VALUES ('gone', 'aoi', 'oslo', '2000-01-01')
    """,
    "uses_of_payloads_go_with_their_jobs": """
        INSERT INTO dag_payload_uses (sha256, holder, created_at) VALUES (repeat('a', 64), 'gone', '2000-01-01')
    """,
    "i6_results_are_right": "UPDATE dag_jobs SET result_data = '{\"x\": -1}'",
    "i1_jobs_end_as_they_must": "UPDATE dag_jobs SET status = 'cancelled'",
}


@pytest.fixture
def conn(migrated_database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated_database, "test", autocommit=True) as open_conn:
        open_conn.execute("SET search_path TO dagapp")
        open_conn.execute(AUDIT)
        yield open_conn


@pytest.fixture
def checker(migrated_database: str) -> Checker:
    return Checker(lambda: migrated_database, "dagapp", small_kinds(), 60)


def end_a_chain(conn: psycopg.Connection[Any]) -> str:
    """The rows of one chain, as they are when all went well."""
    describe_kind(conn, small_kinds()["chaos_chain"])
    job_id = submit(conn, "chaos_chain", {"x": 7}, submitted_by="test")
    conn.execute(
        """
        INSERT INTO dag_node_states (job_id, node_id, status, attempt, max_retries, task_id, ready_at, completed_at)
        SELECT %(job)s, 'n' || n, 'completed', 1, 3, 't' || n,
            now() + n * interval '1 s', now() + (n + 1) * interval '1 s'
        FROM generate_series(0, 7) AS n
        """,
        {"job": job_id},
    )
    conn.execute(
        """
        INSERT INTO dag_task_results (task_id, lease_epoch, job_id, node_id, attempt, status)
        SELECT 't' || n, 1, %(job)s, 'n' || n, 1, 'completed' FROM generate_series(0, 7) AS n
        """,
        {"job": job_id},
    )
    conn.execute(
        """
        INSERT INTO dag_job_events (job_id, seq, event_type, node_id, source_app)
        SELECT %(job)s, n + 2, 'node_completed'::event_type, 'n' || n, 'test' FROM generate_series(0, 7) AS n
        UNION ALL SELECT %(job)s, 10, 'job_completed', NULL, 'test'
        """,
        {"job": job_id},
    )
    conn.execute(
        "UPDATE dag_jobs SET status = 'completed', started_at = now(), completed_at = now(), result_data = '{\"x\": 7}'"
    )
    return job_id


def test_all_is_well_at_first(conn: psycopg.Connection[Any], checker: Checker) -> None:
    job_id = end_a_chain(conn)
    checker.check_all(conn, [job_id], 15)
    assert list(checker.violations) == []


@pytest.mark.parametrize("invariant", PLANTED)
def test_what_is_planted_is_found(conn: psycopg.Connection[Any], checker: Checker, invariant: str) -> None:
    end_a_chain(conn)
    conn.execute(PLANTED[invariant].encode())
    checker.check(conn, LONG_AGO, 15)
    assert invariant in {violation.invariant for violation in checker.violations}


def test_a_fan_out_that_a_rerun_reuses_has_its_children_in_the_earlier_job(
    conn: psycopg.Connection[Any], checker: Checker
) -> None:
    end_a_chain(conn)
    conn.execute(PLANTED["i8_children_are_all_there"].encode())
    conn.execute('UPDATE dag_jobs SET metadata = \'{"rerun": {"again": ["n4"], "keeps_children": []}}\'')
    checker.check(conn, LONG_AGO, 15)
    assert "i8_children_are_all_there" not in {violation.invariant for violation in checker.violations}
    conn.execute('UPDATE dag_jobs SET metadata = \'{"rerun": {"again": ["n3"], "keeps_children": ["n3"]}}\'')
    checker.check(conn, LONG_AGO, 15)
    assert "i8_children_are_all_there" in {violation.invariant for violation in checker.violations}


def test_every_invariant_is_planted_once() -> None:
    assert INVARIANTS.keys() <= PLANTED.keys()


def test_a_payload_that_nobody_uses_is_found_when_it_must_be_gone(
    conn: psycopg.Connection[Any], checker: Checker
) -> None:
    conn.execute(
        "INSERT INTO dag_payloads (sha256, chunk_index, chunk_count, size_bytes, data, created_at)"
        " VALUES (repeat('a', 64), 0, 1, 1, 'x', now() - interval '1 minute')"
    )
    checker.check_payloads(conn, 120)
    assert not checker.violations
    checker.check_payloads(conn, 30)
    assert [violation.invariant for violation in checker.violations] == ["payloads_without_use_go"]


def test_a_job_that_vanished_is_missed(conn: psycopg.Connection[Any], checker: Checker) -> None:
    checker.check_all(conn, ["was-accepted"], 15)
    assert [violation.invariant for violation in checker.violations] == ["i1_none_vanishes"]


def test_a_write_of_somebody_who_is_not_the_owner_is_witnessed(conn: psycopg.Connection[Any], checker: Checker) -> None:
    job_id = end_a_chain(conn)
    conn.execute("UPDATE dag_jobs SET owner_id = 'somebody-else', owner_epoch = 2")
    conn.execute("SET application_name = 'orchestrator:advance:zombie00'")
    conn.execute("UPDATE dag_node_states SET version = version + 1 WHERE job_id = %s AND node_id = 'n1'", [job_id])
    checker.check(conn, LONG_AGO, 15)
    (found,) = checker.violations
    assert found.invariant == "i2_i3_i10_witnessed"
    assert "zombie00" in found.what


def test_a_late_report_of_a_lost_lease_is_witnessed(conn: psycopg.Connection[Any], checker: Checker) -> None:
    end_a_chain(conn)
    conn.execute("UPDATE dag_task_results SET status = 'lost' WHERE node_id = 'n2'")
    conn.execute("UPDATE dag_task_results SET status = 'completed' WHERE node_id = 'n2'")
    checker.check(conn, LONG_AGO, 15)
    assert ["was heard after it was lost" in violation.what for violation in checker.violations] == [True]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE dag_outbox SET message_id = 'another'",
        "UPDATE dag_outbox SET body = '{\"x\": 2}'",
        "UPDATE dag_outbox SET attempts = 0",
        "UPDATE dag_outbox SET status = 'pending', settled_at = NULL",
        "UPDATE dag_outbox SET status = 'dead', last_error = 'no'",
    ],
)
def test_a_message_that_changes_is_witnessed(conn: psycopg.Connection[Any], checker: Checker, change: str) -> None:
    conn.execute(
        "INSERT INTO dag_outbox (message_id, destination, status, settled_at, attempts, body)"
        " VALUES ('m', 'd', 'delivered', now(), 1, '{}')"
    )
    checker.check(conn, LONG_AGO, 15)
    assert not checker.violations
    conn.execute(change.encode())
    checker.check(conn, LONG_AGO, 15)
    assert "i2_i3_i10_witnessed" in {violation.invariant for violation in checker.violations}


def test_a_message_that_vanishes_is_witnessed(conn: psycopg.Connection[Any], checker: Checker) -> None:
    conn.execute("INSERT INTO dag_outbox (message_id, destination, body) VALUES ('m', 'd', '{}')")
    conn.execute("DELETE FROM dag_outbox")
    checker.check(conn, LONG_AGO, 15)
    assert [violation.subject for violation in checker.violations] == ["m"]


def queue_a_task(conn: psycopg.Connection[Any], task_id: str, **columns: Any) -> None:
    row = {"task_id": task_id, "job_id": "j", "node_id": "n", "queue": "q", "handler": "h", "order_key": 1, **columns}
    names, values = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    conn.execute(f"INSERT INTO dag_queue_messages (fairness_key, {names}) VALUES ('f', {values})".encode(), row)


def register_worker(conn: psycopg.Connection[Any], worker_id: str, **columns: Any) -> None:
    row = {
        "worker_id": worker_id,
        "host": "h",
        "process_id": 1,
        "version": "1",
        "slots": 2,
        "queues": '["q"]',
        **columns,
    }
    names, values = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    conn.execute(f"INSERT INTO dag_workers ({names}) VALUES ({values})".encode(), row)


def waits_in_vain(conn: psycopg.Connection[Any], checker: Checker) -> bool:
    """Two looks, and no patience."""
    checker.check(conn, LONG_AGO, 0)
    checker.check(conn, LONG_AGO, 0)
    return "i5_nothing_waits_in_vain" in {violation.invariant for violation in checker.violations}


def hold(worker_id: str, **columns: Any) -> dict[str, Any]:
    return {"worker_id": worker_id, "lease_epoch": 1, "claimed_at": "2000-01-01", **columns}


def test_a_task_that_waits_although_a_worker_is_free_is_found(conn: psycopg.Connection[Any], checker: Checker) -> None:
    register_worker(conn, "w")
    queue_a_task(conn, "held", **hold("w"))
    queue_a_task(conn, "waits")
    checker.check(conn, LONG_AGO, 60)
    assert waits_in_vain(conn, checker)


def test_a_suspect_that_waits_although_a_worker_is_idle_is_found(
    conn: psycopg.Connection[Any], checker: Checker
) -> None:
    register_worker(conn, "w")
    queue_a_task(conn, "waits", lease_losses=2)
    assert waits_in_vain(conn, checker)


@pytest.mark.parametrize(
    ("worker", "held", "waiting"),
    [
        ({"slots": 1}, {}, {}),
        ({"queues": '["elsewhere"]'}, {}, {}),
        ({"draining": True}, {}, {}),
        ({"heartbeat_at": "2000-01-01"}, {}, {}),
        ({}, {"lease_losses": 2}, {}),
        ({}, {}, {"lease_losses": 2}),
        ({}, {}, {"available_at": "2100-01-01"}),
    ],
    ids=["busy", "elsewhere", "draining", "silent", "with a suspect", "a suspect beside others", "delayed"],
)
def test_a_task_that_nobody_can_run_may_wait(
    conn: psycopg.Connection[Any],
    checker: Checker,
    worker: dict[str, Any],
    held: dict[str, Any],
    waiting: dict[str, Any],
) -> None:
    register_worker(conn, "w", **worker)
    queue_a_task(conn, "held", **hold("w", **held))
    queue_a_task(conn, "waits", **waiting)
    assert not waits_in_vain(conn, checker)


def test_the_queries_of_the_report_run(conn: psycopg.Connection[Any]) -> None:
    for query in SETTLEMENT.values():
        given = {
            "unused_seconds": 0,
            "since": LONG_AGO,
            "ids": ["x"],
            "began": LONG_AGO,
            "ended": LONG_AGO,
            "slice": 10,
        }
        conn.execute(query, given).fetchall()
