"""Claims of workers that do not have all handlers of a queue."""

from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.messaging import claims
from rmhdag.messaging.claims import ClaimMarks
from rmhdag.store import tasks
from rmhdag.store.connection import Conn, connect, enter_schema

OURS = frozenset({"echo", "sleep"})


@pytest.fixture
def conn(migrated_database: str) -> Iterator[Conn]:
    with connect(migrated_database, "test", autocommit=True) as opened:
        enter_schema(opened, "dagapp")
        opened.execute(
            "INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,"
            " root_job_id, owner_id, owner_epoch, status, started_at)"
            " VALUES ('j', 'w', 1, 'h', 'me', 'me', 'j', 'o', 1, 'running', now())"
        )
        yield opened


def add(conn: Conn, *handlers: str, queue: str = "q", start: int = 1) -> None:
    """Tasks t1, t2, … in this order."""
    for number, handler in enumerate(handlers, start):
        conn.execute(
            "INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key)"
            " VALUES (%s, 'j', %s, %s, %s, %s, 'me')",
            [f"t{number}", f"n{number}", queue, handler, number],
        )


def names(found: list[Any]) -> list[str]:
    return [task.task_id for task in found]


@pytest.mark.parametrize("by_handler", [False, True])
def test_the_order_among_ones_own_handlers_stays(conn: Conn, by_handler: bool) -> None:
    add(conn, "echo", "other", "sleep", "other", "echo", "sleep", "another", "echo")
    conn.execute("UPDATE dag_queue_messages SET lease_losses = 2 WHERE task_id = 't5'")
    conn.execute("UPDATE dag_queue_messages SET available_at = '2100-01-01' WHERE task_id = 't6'")

    def claim(limit: int, **more: Any) -> list[str]:
        return names(tasks.claim_tasks(conn, "w", "q", limit, handlers=OURS, by_handler=by_handler, **more))

    assert claim(10, namespace="elsewhere") == []
    assert claim(1) == ["t1"]
    assert claim(1, mark=4) == ["t8"]
    assert claim(10) == ["t3"]
    assert claim(10) == []
    assert names(tasks.claim_tasks(conn, "w", "q", 10)) == ["t2", "t4", "t7"]


def test_others_may_claim_by_handler_at_the_same_moment(conn: Conn, migrated_database: str) -> None:
    add(conn, *["echo"] * 6, "other")
    with connect(migrated_database, "other") as other:
        enter_schema(other, "dagapp")
        first = tasks.claim_tasks(other, "w1", "q", 3, handlers=OURS, by_handler=True)
        second = tasks.claim_tasks(conn, "w2", "q", 3, handlers=OURS, by_handler=True)
        assert (names(first), names(second)) == (["t1", "t2", "t3"], ["t4", "t5", "t6"])
        other.rollback()
    assert names(tasks.claim_tasks(conn, "w3", "q", 9, handlers=OURS, by_handler=True)) == ["t1", "t2", "t3"]


def test_whether_tasks_of_others_wait_is_known(conn: Conn) -> None:
    add(conn, "echo", "sleep", "echo")
    assert not tasks.other_handler_waits(conn, "q", OURS)
    assert tasks.other_handler_waits(conn, "q", frozenset({"echo"}))
    assert not tasks.other_handler_waits(conn, "empty", OURS)
    add(conn, "other", start=4)
    assert tasks.other_handler_waits(conn, "q", OURS)
    conn.execute("UPDATE dag_queue_messages SET available_at = '2100-01-01' WHERE handler = 'other'")
    assert not tasks.other_handler_waits(conn, "q", OURS)


@pytest.mark.parametrize("others", [[], ["other"]])
def test_a_worker_gets_its_own_tasks_whoever_else_waits(conn: Conn, others: list[str]) -> None:
    add(conn, *others, "echo", "sleep", *others, "echo")
    marks = ClaimMarks()
    claimed = [task for _ in range(3) for task in marks.claim(conn, "w", "q", 2, OURS)]
    assert [task.handler for task in claimed] == ["echo", "sleep", "echo"]
    assert [task.handler for task in marks.claim(conn, "w", "q", 9)] == 2 * others


def test_where_one_worker_begins_to_look_is_no_mark_for_those_with_other_handlers(
    conn: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a queue full of rows that are gone, claims begin at a mark."""
    monkeypatch.setattr(claims, "MANY_DEAD_ROWS", -1)
    marks = ClaimMarks()
    add(conn, "sleep", "sleep", "echo", "echo", "echo")
    for expected in ("t3", "t4", "t5"):
        marks._places.get(("q", frozenset({"echo"})), claims._Place()).marked_at = 0.0
        assert names(marks.claim(conn, "w", "q", 1, frozenset({"echo"}))) == [expected]
    assert names(marks.claim(conn, "w", "q", 9, frozenset({"sleep"}))) == ["t1", "t2"]
