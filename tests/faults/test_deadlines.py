"""Tasks that were done in time are never timed out, whoever was away meanwhile: with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import psycopg
import pytest
from psycopg import sql

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.workflow.definition import FanOutNode, InputDefinition, RetryRule, TaskNode, TaskSpec, WorkflowDefinition
from tests.faults.processes import Cluster
from tests.store.waiting import wait_until

ONCE = RetryRule(max_attempts=1)
# More results than an orchestrator reads ahead.
CHILDREN, JOBS = 1_000, 3


@contextmanager
def unreachable(cluster: Cluster, server: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """Nobody gets into the database, and whoever was in is thrown out."""
    name = cluster.conn.info.dbname
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as admin:
        admin.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
        try:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            yield admin
        finally:
            admin.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
    cluster.conn.close()
    cluster.conn = cluster.connect()


def latest_deadline(cluster: Cluster) -> datetime | None:
    found: datetime | None = cluster.one("SELECT max(deadline_at) FROM dag_node_states WHERE status = 'running'")
    return found


@pytest.mark.timeout(120)
def test_a_database_that_is_away_for_longer_than_the_time_outs_fails_no_job(
    cluster: Cluster, fault_server: EmbeddedPostgres
) -> None:
    """The tasks end in their workers in time, and can be reported only after their deadlines."""
    cluster.orchestrator()
    cluster.worker("--concurrency", "8")
    nap = TaskSpec(handler="sleep", queue="light", params={"seconds": 3}, retry=ONCE, timeout_seconds=5)
    definition = WorkflowDefinition(workflow_id="naps", name="Naps", nodes={"nap": TaskNode(task=nap)})
    jobs = [cluster.submit(definition) for _ in range(8)]
    running = "SELECT count(*) FROM dag_node_states WHERE status = 'running' AND deadline_at IS NOT NULL"
    cluster.wait_for(lambda: cluster.one(running) == len(jobs), "all tasks run")
    deadline = latest_deadline(cluster)
    with unreachable(cluster, fault_server) as admin:
        is_past = "SELECT clock_timestamp() > %s::timestamptz + interval '1 second'"
        wait_until(lambda: admin.execute(is_past, [deadline]).fetchone() == (True,) or None, 40)
    assert cluster.wait_for_end(*jobs) == ["completed"] * len(jobs)
    assert cluster.one("SELECT count(*) FROM dag_task_results WHERE status <> 'completed'") == 0
    cluster.check_rows()


@pytest.mark.timeout(120)
def test_what_is_done_while_all_orchestrators_are_away_counts(cluster: Cluster) -> None:
    doomed = cluster.orchestrator()
    child = TaskSpec(handler="echo", queue="light", retry=ONCE, start_timeout_seconds=3_600)
    definition = WorkflowDefinition(
        workflow_id="many",
        name="Many",
        inputs={"items": InputDefinition(type="array")},
        nodes={"split": FanOutNode(source="{{ inputs.items }}", task=child)},
    )
    jobs = [cluster.submit(definition, {"items": list(range(CHILDREN))}) for _ in range(JOBS)]
    queued = "SELECT count(*) FROM dag_queue_messages"
    cluster.wait_for(lambda: cluster.one(queued) == CHILDREN * JOBS, "all tasks are queued")
    cluster.kill(doomed)
    cluster.worker()
    cluster.wait_for(lambda: cluster.one(queued) == 0, "all tasks are reported")
    # Long past, and those first whose results are read last.
    cluster.conn.execute(
        "UPDATE dag_node_states AS n SET deadline_at = timestamptz '2000-01-01' - i.inbox_id * interval '1 second'"
        " FROM dag_inbox AS i WHERE i.task_id = n.task_id"
    )
    cluster.orchestrator()
    assert cluster.wait_for_end(*jobs) == ["completed"] * JOBS
    assert cluster.one("SELECT count(*) FROM dag_node_states WHERE status = 'failed'") == 0
    cluster.check_rows()
