"""The orchestrator with its threads."""

from __future__ import annotations

import threading

from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.orchestrator.duties.claim_submissions import BITE
from rmhdag.orchestrator.process import Orchestrator
from rmhdag.workflow.definition import ApprovalNode
from tests.engine.definitions import workflow
from tests.orchestrator.platform import Platform
from tests.store.waiting import wait_until


def test_a_burst_of_jobs_is_claimed_without_waiting_for_the_poll(platform: Platform) -> None:
    waits = workflow(wait=ApprovalNode())
    with platform.conn.transaction():
        for _ in range(3 * BITE):
            platform.submit(waits)
    settings = OrchestratorSettings(poll_seconds=3_600)
    orchestrator = Orchestrator(platform.dsn, "dagapp", settings, {})
    thread = threading.Thread(target=orchestrator.run)
    thread.start()
    try:
        unclaimed = "SELECT count(*) FROM dag_jobs WHERE owner_id IS NULL"
        wait_until(lambda: platform.conn.execute(unclaimed).fetchone() == (0,))
    finally:
        orchestrator.stop()
        thread.join(30)
    assert not thread.is_alive()
