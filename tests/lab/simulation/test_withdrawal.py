"""A task is given back at the moment at which its job withdraws its tasks: whoever comes first, it is withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from rmhdag.store import tasks
from rmhdag.store.batch_rows import HeldJob
from rmhdag.store.connection import Conn
from rmhdag.store.settle import Settled, Writes, settle
from tests.lab.simulation.lanes import Lanes

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def lanes(migrated_database: str) -> Iterator[Lanes]:
    """A job with one task, held by a worker."""
    with closing(Lanes(migrated_database)) as made:
        made.reader.execute("SET search_path TO dagapp")
        made.reader.execute(
            "INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,"
            " root_job_id, owner_id, owner_epoch, status, started_at)"
            " VALUES ('j', 'w', 1, 'h', 'me', 'me', 'j', 'o', 1, 'running', now())"
        )
        made.reader.execute(
            "INSERT INTO dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key)"
            " VALUES ('t', 'j', 'n', 'light', 'echo', 1, 'me')"
        )
        made.run(lambda conn: tasks.claim_tasks(conn, "w", "light", 1), NOW)
        yield made


def give_back(conn: Conn) -> None:
    tasks.release_tasks(conn, "w", [("t", 1, None)])


def withdraw(conn: Conn) -> Settled:
    return settle(conn, "o", [HeldJob("j", 1)], [], NOW, lambda locked: Writes(withdrawn_jobs=["j"]))


def check_withdrawn(lanes: Lanes) -> None:
    assert lanes.reader.execute("SELECT task_id FROM dag_queue_messages").fetchall() == []
    assert lanes.reader.execute("SELECT kind FROM dag_inbox").fetchall() == [("task_withdrawn",)]


def test_it_is_given_back_first(lanes: Lanes) -> None:
    lanes.run_and_stay(give_back, NOW, "w", lambda _: {"j"}, 1)
    assert lanes.run(withdraw, NOW).written
    check_withdrawn(lanes)


def test_it_is_told_to_stop_first(lanes: Lanes) -> None:
    lanes.settle_and_stay(withdraw, NOW, "o", {"j"}, 1, lambda settled: None)
    lanes.run(give_back, NOW)
    check_withdrawn(lanes)
