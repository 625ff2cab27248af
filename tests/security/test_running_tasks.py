"""No namespace holds all slots of the shared workers, however long its tasks take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rmhdag.messaging.claims import ClaimMarks
from rmhdag.models.leases import ClaimedTask
from rmhdag.models.quotas import Quotas
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties import running_quotas
from rmhdag.store import quotas, suspects, tasks
from rmhdag.store.identity import new_id
from tests.orchestrator.platform import QUEUE, Platform, Seat


class Tenants:
    """Two namespaces with tasks of an order that the test chooses, and workers that only claim."""

    def __init__(self, platform: Platform, seat: Seat) -> None:
        self._platform = platform
        self._seat = seat
        self._order = 0
        platform.conn.execute("DELETE FROM dag_workers")

    def queue(self, namespace: str, count: int, queue: str = QUEUE) -> None:
        for _ in range(count):
            self._order += 1
            job_id = new_id()
            self._platform.conn.execute(
                "INSERT INTO dag_jobs (job_id, namespace, workflow_id, workflow_version, workflow_hash, fairness_key,"
                " submitted_by, root_job_id) VALUES (%s, %s, 'w', 1, 'h', 'me', 'me', %s)",
                [job_id, namespace, job_id],
            )
            self._platform.conn.execute(
                "INSERT INTO dag_queue_messages (task_id, job_id, node_id, namespace, queue, handler, order_key,"
                " fairness_key) VALUES (%s, %s, 'n', %s, %s, 'echo', %s, 'me')",
                [f"t{self._order}", job_id, namespace, queue, self._order],
            )

    def worker(self, worker_id: str, slots: int, *queues: str, namespace: str | None = None) -> None:
        self._platform.conn.execute(
            "INSERT INTO dag_workers (worker_id, host, process_id, version, slots, queues, serves_namespace)"
            " VALUES (%s, 'here', 1, '0', %s, %s, %s)",
            [worker_id, slots, json.dumps(queues or [QUEUE]), namespace],
        )

    def look(self) -> int:
        return running_quotas.run_once(self._seat.context)

    def start(self, worker_id: str) -> None:
        """All that it holds turns out to take long."""
        self._platform.conn.execute(
            "UPDATE dag_queue_messages SET started_at = clock_timestamp() WHERE worker_id = %s", [worker_id]
        )

    def claim(self, worker_id: str, limit: int, queue: str = QUEUE, **more: Any) -> dict[str, int]:
        """How many tasks of each namespace."""
        claimed: list[ClaimedTask] = tasks.claim_tasks(self._platform.conn, worker_id, queue, limit, **more)
        names = [task.namespace for task in claimed]
        return {name: names.count(name) for name in sorted(set(names))}


@pytest.fixture
def tenants(platform: Platform) -> Tenants:
    return Tenants(platform, platform.seat(OrchestratorSettings(quotas=Quotas(running_share=75))))


WAYS = pytest.mark.parametrize("more", [{}, {"handlers": frozenset({"echo"}), "by_handler": True}], ids=str)


@WAYS
def test_one_namespace_leaves_a_slot_for_another_that_comes_later(tenants: Tenants, more: dict[str, Any]) -> None:
    tenants.worker("w", 4)
    tenants.queue("alpha", 50)
    tenants.queue("beta", 1)
    tenants.look()
    assert tenants.claim("w", 4, **more) == {"alpha": 3, "beta": 1}
    tenants.start("w")
    assert tenants.claim("w", 4, **more) == {}
    tenants.queue("beta", 5)
    assert tenants.claim("w", 2, **more) == {"beta": 2}


@WAYS
def test_short_tasks_of_several_namespaces_are_taken_in_store(tenants: Tenants, more: dict[str, Any]) -> None:
    """Counted one by one, 300 short tasks took 45 s with two slots: a worker never had more than one at a time."""
    tenants.worker("w", 2)
    tenants.queue("alpha", 50)
    tenants.queue("beta", 50)
    tenants.look()
    assert tenants.claim("w", 40, **more) == {"alpha": 20, "beta": 20}
    tenants.start("w")
    assert tenants.claim("w", 40, **more) == {}, "each has its slot, for a task that takes long"


def test_the_only_worker_is_told_how_many_slots_a_namespace_may_use(tenants: Tenants, platform: Platform) -> None:
    tenants.worker("w", 4)
    tenants.queue("alpha", 50)
    tenants.queue("beta", 1)
    tenants.look()
    assert {task.lanes for task in tasks.claim_tasks(platform.conn, "w", QUEUE, 8)} == {3}


def test_a_worker_all_of_whose_slots_are_free_for_a_namespace_takes_any_number(tenants: Tenants) -> None:
    """What it has in store needs no slots."""
    tenants.worker("w0", 2)
    tenants.worker("w1", 2)
    tenants.queue("alpha", 100)
    tenants.queue("beta", 1)
    tenants.look()
    assert tenants.claim("w0", 30) == {"alpha": 30}
    assert tenants.claim("w1", 30) == {"alpha": 1, "beta": 1}
    assert tenants.claim("w0", 30) == {"alpha": 30}
    assert tenants.claim("w1", 30) == {}


def test_claims_at_the_same_moment_see_each_other(tenants: Tenants, platform: Platform) -> None:
    """Two workers that heard the same bell both took what there was room for, and all slots were one namespace's."""
    for number in range(2):
        tenants.worker(f"w{number}", 2)
    tenants.queue("alpha", 8)
    tenants.queue("beta", 1)
    tenants.look()
    seat, marks = platform.seat(), ClaimMarks()
    with ThreadPoolExecutor(1) as pool:
        with platform.conn.transaction():
            first = tasks.claim_tasks(platform.conn, "w0", QUEUE, 2, one_by_one=True)
            second = pool.submit(marks.claim, seat.context.conn, "w1", QUEUE, 2)
            wait_until(
                lambda: (
                    platform.conn.execute(
                        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                    ).fetchone()
                    == (1,)
                )
            )
        names = [task.namespace for task in (*first, *second.result(30))]
    assert sorted(names) == ["alpha", "alpha", "alpha", "beta"]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline


def test_suspects_count_as_well(tenants: Tenants, platform: Platform) -> None:
    tenants.worker("w0", 1)
    tenants.worker("w1", 1)
    tenants.queue("alpha", 2)
    tenants.queue("beta", 1)
    platform.conn.execute("UPDATE dag_queue_messages SET lease_losses = 2 WHERE task_id <> 't1'")
    tenants.look()
    assert tenants.claim("w0", 1) == {"alpha": 1}
    suspect = suspects.claim_suspect(platform.conn, "w1", [QUEUE])
    assert suspect is not None
    assert suspect.namespace == "beta", "alpha has one of two slots"


@WAYS
def test_a_namespace_that_is_alone_has_all_slots_and_more_in_store(tenants: Tenants, more: dict[str, Any]) -> None:
    tenants.worker("w", 2)
    tenants.queue("default", 30)
    tenants.look()
    assert tenants.claim("w", 20, **more) == {"default": 20}


def test_even_two_slots_are_shared(tenants: Tenants) -> None:
    """Two endless tasks of alpha held both slots, and beta was not served before they were cancelled."""
    tenants.worker("w", 2)
    tenants.queue("alpha", 2)
    tenants.queue("beta", 1)
    tenants.look()
    assert tenants.claim("w", 2) == {"alpha": 1, "beta": 1}


def test_the_share_is_of_all_workers_of_the_queue(tenants: Tenants) -> None:
    for number in range(4):
        tenants.worker(f"w{number}", 1)
    tenants.queue("alpha", 10)
    tenants.queue("beta", 1)
    tenants.look()
    assert [tenants.claim(f"w{number}", 1) for number in range(4)] == [{"alpha": 1}] * 3 + [{"beta": 1}]


def test_a_worker_of_two_queues_is_not_filled_through_the_other_one(tenants: Tenants) -> None:
    tenants.worker("w", 2, "light", "heavy")
    tenants.queue("alpha", 5, "light")
    tenants.queue("alpha", 5, "heavy")
    tenants.queue("beta", 1, "heavy")
    tenants.look()
    assert tenants.claim("w", 2, "light") == {"alpha": 1}
    assert tenants.claim("w", 1, "heavy") == {"beta": 1}


def test_the_workers_of_a_tenant_are_its_own(tenants: Tenants) -> None:
    tenants.worker("shared", 4)
    tenants.worker("own", 4, namespace="alpha")
    tenants.queue("alpha", 20)
    tenants.queue("beta", 1)
    tenants.look()
    assert tenants.claim("own", 10, namespace="alpha") == {"alpha": 10}
    assert tenants.claim("shared", 4) == {"alpha": 3, "beta": 1}


def test_a_quota_of_its_own_holds_for_a_namespace_alone(tenants: Tenants, platform: Platform) -> None:
    tenants.worker("w", 8)
    tenants.queue("alpha", 20)
    quotas.set_quotas(platform.conn, "alpha", {"running_tasks": 2}, "root")
    tenants.look()
    assert tenants.claim("w", 8) == {"alpha": 2}
    quotas.set_quotas(platform.conn, "alpha", {"running_tasks": None}, "root")
    tenants.look()
    assert tenants.claim("w", 8) == {"alpha": 8}


def test_a_large_limit_is_counted_from_its_half_on(platform: Platform) -> None:
    seat = platform.seat(OrchestratorSettings(quotas=Quotas(running_tasks=100)))
    tenants = Tenants(platform, seat)
    tenants.worker("w", 500)
    tenants.queue("alpha", 120)
    assert tenants.look() == 1, "its limits are written down"
    assert tenants.claim("w", 49) == {"alpha": 49}
    assert tenants.look() == 0
    assert tenants.claim("w", 1) == {"alpha": 1}
    assert tenants.look() == 1
    assert tenants.claim("w", 120) == {"alpha": 50}


def test_nothing_is_counted_while_no_limit_is_near(tenants: Tenants, platform: Platform) -> None:
    tenants.worker("w", 4)
    tenants.queue("default", 5)
    tenants.look()
    given = {"worker_id": "w", "queue": QUEUE, "limit": 2, "mark": 0, "namespace": None, "handlers": None}
    plan = platform.conn.execute(b"EXPLAIN (ANALYZE, FORMAT TEXT) " + tasks.SQL["claim_tasks"], given).fetchall()
    lines = [line for (line,) in plan]
    assert [line for line in lines if "dag_workers" in line]
    assert all("never executed" in line for line in lines if "dag_workers" in line)
