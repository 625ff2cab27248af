"""The orchestrator with its threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import psycopg
import pytest

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties.claim_submissions import BITE
from rmhdag.orchestrator.process import Orchestrator
from rmhdag.store import crash_points
from rmhdag.workflow.definition import ApprovalNode
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import Platform, open_connection
from tests.store.waiting import wait_until

CHILDREN = 40_000  # a thousand in each turn: the loop has no idle moment for a second and more


@contextmanager
def running(platform: Platform, settings: OrchestratorSettings) -> Iterator[Orchestrator]:
    orchestrator = Orchestrator(platform.dsn, "dagapp", settings, {})
    thread = threading.Thread(target=orchestrator.run)
    thread.start()
    try:
        yield orchestrator
    finally:
        crash_points.disarm()
        orchestrator.stop()
        thread.join(30)
    assert not thread.is_alive()


def test_a_burst_of_jobs_is_claimed_without_waiting_for_the_poll(platform: Platform) -> None:
    waits = workflow(wait=ApprovalNode())
    with platform.conn.transaction():
        for _ in range(3 * BITE):
            platform.submit(waits)
    with running(platform, OrchestratorSettings(poll_seconds=3_600)):
        unclaimed = "SELECT count(*) FROM dag_jobs WHERE owner_id IS NULL"
        wait_until(lambda: platform.conn.execute(unclaimed).fetchone() == (0,))


def lose_the_connection() -> None:
    raise psycopg.OperationalError("gone")


@pytest.mark.parametrize(
    "site", ["claim_unowned_jobs.before_commit", "claim_unowned_jobs.after_commit", "settle.after_commit"]
)
def test_a_job_that_was_claimed_although_it_seemed_to_fail_begins(platform: Platform, site: str) -> None:
    """The answer is lost: nobody has told the loop that the job is its own."""
    with running(platform, OrchestratorSettings()) as orchestrator:
        wait_until(lambda: platform.count("dag_orchestrators") or None)
        name = orchestrator.owner_id
        crash_points.arm(site, lose_the_connection)
        job_id = platform.submit(workflow(only=task()))
        wait_until(lambda: platform.nodes(job_id).get("only") == "dispatched" or None)
        platform.succeed(*platform.claim())
        wait_until(lambda: platform.job(job_id)["status"] == "completed" or None)
        owner = platform.job(job_id)["owner_id"]
        assert (orchestrator.owner_id, owner) == (name, name), "it keeps its name and its jobs"


def test_the_loop_goes_on_whatever_is_raised_outside_of_a_batch(platform: Platform) -> None:
    """The connection breaks, and so does what follows, in a way that nobody expects."""
    raised: list[str] = []

    def raise_unexpected() -> None:
        raised.append("reclaim_from_myself")
        raise RuntimeError("unexpected")

    def break_twice() -> None:
        crash_points.arm("reclaim_from_myself.before_commit", raise_unexpected)
        lose_the_connection()

    with running(platform, OrchestratorSettings()) as orchestrator:
        crash_points.arm("settle.after_commit", break_twice)
        first = platform.submit(workflow(only=task()))
        wait_until(lambda: raised or None)
        owner = orchestrator.owner_id
        second = platform.submit(workflow(only=task()))
        for job_id in (first, second):
            wait_until(lambda: platform.nodes(job_id) == {"only": "dispatched"} or None)  # noqa: B023
            assert platform.job(job_id)["owner_id"] == owner


def test_a_job_that_is_claimed_while_its_claimer_leaves_is_not_left_behind(platform: Platform) -> None:
    """The loop hears of the stop while another thread is about to claim."""
    with running(platform, OrchestratorSettings()) as orchestrator, open_connection(platform.dsn) as other:
        wait_until(lambda: platform.count("dag_orchestrators") or None)

        def stop_meanwhile() -> None:
            orchestrator.stop()
            deadline = monotonic() + 1
            while monotonic() < deadline and other.execute("SELECT FROM dag_orchestrators").fetchone() is not None:
                pass

        crash_points.arm("claim_unowned_jobs.before_commit", stop_meanwhile)
        job_id = platform.submit(workflow(only=task()))
        wait_until(lambda: platform.count("dag_orchestrators") == 0 or None)
    job = platform.job(job_id)
    assert (job["owner_id"], job["owner_epoch"]) == (None, 1)


def test_new_jobs_are_heard_of_while_there_is_no_end_of_work(platform: Platform) -> None:
    """Nothing polls here, so only the bell can bring the second job, and only a busy loop that listens hears it."""
    with running(platform, OrchestratorSettings(timer_seconds=3_600.0)):
        large = platform.submit(fan("collect"), {"items": list(range(CHILDREN))})
        made = "SELECT count(*) FROM dag_node_states WHERE job_id = %s AND parent_node_id IS NOT NULL"
        wait_until(lambda: platform.conn.execute(made, [large]).fetchone() != (0,))
        small = platform.submit(fan("collect"), {"items": []})
        claimed = f"SELECT ({made}) FROM dag_jobs WHERE job_id = %s AND owner_id IS NOT NULL".encode()
        (count,) = wait_until(lambda: platform.conn.execute(claimed, [large, small]).fetchone())
    assert count < CHILDREN, "it was heard only when the work was done"


def test_retention_that_has_to_wait_holds_up_nobody(platform: Platform) -> None:
    old = platform.submit(workflow(only=task()))
    platform.finish(platform.seat())
    platform.conn.execute("UPDATE dag_jobs SET completed_at = completed_at - interval '100 days'")
    settings = OrchestratorSettings(pruning_seconds=0.1, rollup_seconds=0.1)
    there = "SELECT count(*) FROM dag_jobs WHERE job_id = %s"
    with open_connection(platform.dsn) as other:
        with other.transaction():
            other.execute("LOCK TABLE dag_pruned_jobs IN ACCESS EXCLUSIVE MODE")
            with running(platform, settings):
                waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'dag_pruned_jobs'::regclass"
                wait_until(lambda: platform.conn.execute(waits).fetchone() is not None)
                job_id = platform.submit(workflow(only=task()))
                wait_until(lambda: platform.job(job_id)["status"] == "running")
                assert platform.conn.execute(there, [old]).fetchone() == (1,)
        with running(platform, settings):
            wait_until(lambda: platform.conn.execute(there, [old]).fetchone() == (0,))
            pruned = "SELECT FROM dag_orchestrators WHERE stats->'pruned_rows'->>'dag_node_states' = '1'"
            wait_until(lambda: platform.conn.execute(pruned).fetchone() is not None)
