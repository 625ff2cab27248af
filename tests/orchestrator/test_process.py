"""A whole orchestrator with its threads, in this process: what it does when a connection breaks under it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.process import Orchestrator
from rmhdag.store import crash_points
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until


@pytest.fixture
def orchestrator(platform: Platform) -> Iterator[Orchestrator]:
    running = Orchestrator(platform.dsn, "dagapp", OrchestratorSettings(), {})
    thread = threading.Thread(target=running.run)
    thread.start()
    yield running
    crash_points.disarm()
    running.stop()
    thread.join(10)
    assert not thread.is_alive()


def lose_the_connection() -> None:
    raise psycopg.OperationalError("gone")


@pytest.mark.parametrize(
    "site", ["claim_unowned_jobs.before_commit", "claim_unowned_jobs.after_commit", "settle.after_commit"]
)
def test_a_job_that_was_claimed_although_it_seemed_to_fail_begins(
    platform: Platform, orchestrator: Orchestrator, site: str
) -> None:
    """The answer is lost: nobody has told the loop that the job is its own."""
    wait_until(lambda: platform.count("dag_orchestrators") or None)
    name = orchestrator.owner_id
    crash_points.arm(site, lose_the_connection)
    job_id = platform.submit(workflow(only=task()))
    wait_until(lambda: platform.nodes(job_id).get("only") == "dispatched" or None)
    platform.succeed(*platform.claim())
    wait_until(lambda: platform.job(job_id)["status"] == "completed" or None)
    assert (orchestrator.owner_id, platform.job(job_id)["owner_id"]) == (name, name), "it keeps its name and its jobs"
