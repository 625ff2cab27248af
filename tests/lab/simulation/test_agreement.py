"""The model store and PostgreSQL do the same operations of a seed, interleaved, and agree; without a guard they do not.

The two go together: a guard that can be taken away without a disagreement is one that nobody watches.
"""

from __future__ import annotations

import uuid
from contextlib import closing

import psycopg
import pytest

from rmhdag.lab.simulation.violation import Violation
from rmhdag.store import jobs, settle, tasks, workers
from tests.conftest import Servers
from tests.lab.simulation.lanes import Disagreement, Lanes
from tests.lab.simulation.mirror import run_mirrored

# A task that outlives two workers is too rare for them: its guards are in tests/orchestrator/test_sql_guards.py.
SEEDS = range(16)
STEPS = 500
LATECOMERS = (
    "a commit of somebody who is not the owner",
    "a checkpoint of a lease that is over",
    "a give-back of a lease that is over",
    "a requeue of a lease that is over",
    "a report of a lease that is over",
    "a start of a lease that is over",
    "a claim of jobs that are being written",
    "a claim of tasks that are being claimed",
    "the loss of a task that is being reported",
)


def _run_seeds(lanes: Lanes) -> None:
    """The same seeds with and without the guard, so that it is the guard that is missed."""
    for seed in SEEDS:
        run_mirrored(seed, lanes, STEPS)


@pytest.mark.timeout(180)
def test_the_operations_of_the_simulator_agree_on_postgresql(migrated_database: str) -> None:
    with closing(Lanes(migrated_database)) as lanes:
        _run_seeds(lanes)
        missing = [kind for kind in (*LATECOMERS, "left open", "settle left open", "waited") if not lanes.seen[kind]]
    assert missing == [], "the seeds show too little"


@pytest.fixture(scope="session")
def mirror_database(servers: Servers) -> str:
    """One kind of server is enough to see that a guard is missed; the test above runs on both."""
    server = servers.running("wheel18")
    return server.create_database(f"mirror_{uuid.uuid4().hex}", template=servers.migrated_template(server))


Guard = tuple[dict[str, bytes], str, str, str]
NOTHING = ""
GUARDS: list[Guard] = [
    (settle.SQL, "lock_jobs_and_inbox", "AND j.owner_epoch = (r->>1)::bigint", NOTHING),
    (settle.SQL, "lock_jobs_and_inbox", "j.owner_id IS NOT DISTINCT FROM %(me)s", "true"),
    (settle.SQL, "lock_jobs_and_inbox", "FOR NO KEY UPDATE OF j", NOTHING),
    (settle.SQL, "requeue_tasks", "AND q.lease_epoch = (r->>1)::bigint", NOTHING),
    (settle.SQL, "requeue_tasks", "lease_epoch = q.lease_epoch + 1", "lease_epoch = q.lease_epoch"),
    (settle.SQL, "withdraw_unclaimed_tasks", "AND worker_id IS NULL", NOTHING),
    (jobs.SQL, "submit_jobs", "ON CONFLICT DO NOTHING", NOTHING),
    (jobs.SQL, "claim_unowned_jobs", "owner_id IS NULL AND", NOTHING),
    (jobs.SQL, "claim_unowned_jobs", "j.owner_epoch + 1", "j.owner_epoch"),
    (jobs.SQL, "claim_unowned_jobs", "SKIP LOCKED", NOTHING),
    (jobs.SQL, "claim_unowned_jobs", "FOR NO KEY UPDATE SKIP LOCKED", NOTHING),
    (jobs.SQL, "claim_orphaned_jobs", "owner_id = ANY(%(dead)s)", "%(dead)s::text[] IS NOT NULL"),
    (jobs.SQL, "claim_orphaned_jobs", "AND completed_at IS NULL", NOTHING),
    (jobs.SQL, "claim_orphaned_jobs", "j.owner_epoch + 1", "j.owner_epoch"),
    (jobs.SQL, "claim_orphaned_jobs", "SKIP LOCKED", NOTHING),
    (jobs.SQL, "claim_orphaned_jobs", "FOR NO KEY UPDATE SKIP LOCKED", NOTHING),
    (jobs.SQL, "release_jobs", "owner_id = %(me)s AND", NOTHING),
    (tasks.SQL, "claim_unwatched_tasks", "AND worker_id IS NULL", NOTHING),
    (tasks.SQL, "claim_unwatched_tasks", "AND available_at IS NULL", NOTHING),
    (tasks.SQL, "claim_unwatched_tasks", "q.lease_epoch + 1", "q.lease_epoch"),
    (tasks.SQL, "claim_unwatched_tasks", "SKIP LOCKED", NOTHING),
    (tasks.SQL, "claim_unwatched_tasks", "FOR UPDATE SKIP LOCKED", NOTHING),
    (tasks.SQL, "claim_unwatched_tasks", "AND lease_losses < 2", NOTHING),
    (tasks.SQL, "report_tasks", "AND q.lease_epoch = g.lease_epoch", NOTHING),
    (tasks.SQL, "report_tasks", "AND q.worker_id IS NOT DISTINCT FROM %(worker_id)s", NOTHING),
    (tasks.SQL, "start_tasks", "AND q.lease_epoch = g.lease_epoch", NOTHING),
    (tasks.SQL, "start_tasks", "q.worker_id IS NOT DISTINCT FROM %(worker_id)s", "true"),
    (tasks.SQL, "start_tasks", "FOR NO KEY UPDATE OF q", NOTHING),
    (tasks.SQL, "release_tasks", "AND q.lease_epoch = g.lease_epoch", NOTHING),
    (tasks.SQL, "release_tasks", "q.worker_id IS NOT DISTINCT FROM %(worker_id)s", "true"),
    (tasks.SQL, "release_tasks", "AND held.cancel_requested", NOTHING),
    (tasks.SQL, "report_lost_tasks", "'lost:' || left(q.worker_id, 59)", "q.worker_id"),
    (workers.SQL, "save_checkpoint", "AND q.lease_epoch = %(lease_epoch)s", NOTHING),
    (workers.SQL, "save_checkpoint", "AND q.worker_id = %(worker_id)s", NOTHING),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("queries", "name", "guard", "instead"), GUARDS, ids=[f"{n}: {g}" for _, n, g, _ in GUARDS])
def test_without_the_guard_they_disagree(
    mirror_database: str,
    monkeypatch: pytest.MonkeyPatch,
    queries: dict[str, bytes],
    name: str,
    guard: str,
    instead: str,
) -> None:
    assert guard.encode() in queries[name]
    monkeypatch.setitem(queries, name, queries[name].replace(guard.encode(), instead.encode()))
    with closing(Lanes(mirror_database)) as lanes, pytest.raises((Disagreement, Violation, psycopg.Error)):
        _run_seeds(lanes)
